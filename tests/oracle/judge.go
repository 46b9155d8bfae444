package main

import (
	"context"
	"sync"
	"time"
	_ "unsafe" // for go:linkname

	"github.com/go-logr/logr"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	testingclock "k8s.io/utils/clock/testing"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	kueue "sigs.k8s.io/kueue/apis/kueue/v1beta2"
	qcache "sigs.k8s.io/kueue/pkg/cache/queue"
	schdcache "sigs.k8s.io/kueue/pkg/cache/scheduler"
	"sigs.k8s.io/kueue/pkg/scheduler"
	"sigs.k8s.io/kueue/pkg/scheduler/preemption/expectations"
	utilqueue "sigs.k8s.io/kueue/pkg/util/queue"
	"sigs.k8s.io/kueue/pkg/util/routine"
	utiltesting "sigs.k8s.io/kueue/pkg/util/testing"
	"sigs.k8s.io/kueue/pkg/util/wait"
	"sigs.k8s.io/kueue/pkg/workload"
	"sigs.k8s.io/kueue/pkg/workload/evict"
)

// One cycle and the way to wait for its writes are open to Kueue's own tests alone.

//go:linkname schedule sigs.k8s.io/kueue/pkg/scheduler.(*Scheduler).schedule
func schedule(*scheduler.Scheduler, context.Context) wait.SpeedSignal

//go:linkname setAdmissionRoutineWrapper sigs.k8s.io/kueue/pkg/scheduler.(*Scheduler).setAdmissionRoutineWrapper
func setAdmissionRoutineWrapper(*scheduler.Scheduler, routine.Wrapper)

// Gates that are off in Kueue 0.19 and that the lab decides with, as 0.20 does.
const gates = "UnadmittedWorkloadsObservability=true,RecomputeAssignmentUponPreemptionTargetsOverlap=true"

// Now is the time of the first cycle, Step that between two.
var Now = time.Date(2026, time.November, 2, 12, 0, 0, 0, time.UTC)

const Step = 10 * time.Second

// Place is where a workload has quota: ClusterQueue, and for each pod set count, flavors and usage.
type Place struct {
	ClusterQueue string   `json:"cluster_queue"`
	PodSets      []PodSet `json:"pod_sets"`
}

// PodSet is the assignment of one pod set.
type PodSet struct {
	Name    string            `json:"name"`
	Count   int32             `json:"count"`
	Flavors map[string]string `json:"flavors"`
	Usage   map[string]string `json:"usage"`
}

// Reason is what a condition says.
type Reason [2]string

// Decision is the state after a cycle.
type Decision struct {
	// Holds are the workloads that have quota, victims too.
	Holds map[string]Place `json:"holds"`
	// Preempted says why, for each victim of this cycle.
	Preempted map[string]Reason `json:"preempted"`
	// Pending says why, for each that was tried in vain.
	Pending map[string]Reason `json:"pending"`
	// Waiting are those that the next cycle tries, Parked those that wait for an event; by ClusterQueue.
	Waiting map[string][]string `json:"waiting"`
	Parked  map[string][]string `json:"parked"`
}

// Court is Kueue with the objects of one scenario.
type Court struct {
	client    client.Client
	cache     *schdcache.Cache
	queues    *qcache.Manager
	scheduler *scheduler.Scheduler
	clock     *testingclock.FakeClock
	requeue   func(context.Context) int
	// seen are the versions of workloads that reached caches and queues.
	seen   map[workload.Reference]string
	writes sync.WaitGroup
}

// Judge lets Kueue decide in each cycle.
func Judge(given scenario) ([]*Decision, error) {
	objects, err := decode(given.Objects)
	if err != nil {
		return nil, err
	}
	ctx := ctrl.LoggerInto(context.Background(), logr.Discard())
	court, err := opened(ctx, objects)
	if err != nil {
		return nil, err
	}
	var decisions []*Decision
	for number, events := range given.Cycles {
		if number > 0 {
			if err := court.control(ctx); err != nil {
				return nil, err
			}
			court.clock.Step(Step)
		}
		if err := court.happen(ctx, events); err != nil {
			return nil, err
		}
		court.cycle(ctx)
		made, err := court.decision(ctx)
		if err != nil {
			return nil, err
		}
		decisions = append(decisions, made)
	}
	return decisions, nil
}

func opened(ctx context.Context, objects *Objects) (*Court, error) {
	settings := objects.config
	built := utiltesting.NewClientBuilder().
		WithObjects(objects.stored()...).
		WithStatusSubresource(&kueue.Workload{}).
		WithInterceptorFuncs(interceptor.Funcs{SubResourcePatch: utiltesting.TreatSSAAsStrategicMerge}).
		Build()
	court := &Court{client: built, clock: testingclock.NewFakeClock(Now), seen: map[workload.Reference]string{}}
	court.cache = schdcache.New(built,
		schdcache.WithFairSharing(settings.FairSharing != nil),
		schdcache.WithAdmissionFairSharing(settings.AdmissionFairSharing))
	victims := expectations.New()
	queues, requeuer := qcache.NewManagerForUnitTestsWithRequeuer(built, court.cache,
		qcache.WithAdmissionFairSharing(settings.AdmissionFairSharing),
		qcache.WithPreemptionExpectations(victims))
	court.queues, court.requeue = queues, requeuer.ProcessRequeues
	options := []scheduler.Option{
		scheduler.WithFairSharing(settings.FairSharing),
		scheduler.WithAdmissionFairSharing(settings.AdmissionFairSharing),
		scheduler.WithClock(nil, court.clock),
		scheduler.WithPreemptionExpectations(victims),
	}
	if settings.Resources != nil && settings.Resources.QuotaCheckStrategy != nil {
		options = append(options, scheduler.WithQuotaCheckStrategy(*settings.Resources.QuotaCheckStrategy))
	}
	court.scheduler = scheduler.New(court.queues, court.cache, built, &utiltesting.EventRecorder{}, options...)
	setAdmissionRoutineWrapper(court.scheduler, routine.NewWrapper(
		func() { court.writes.Add(1) }, func() { court.writes.Done() }))
	if err := court.fill(ctx, objects); err != nil {
		return nil, err
	}
	all, err := court.workloads(ctx)
	for place := range all {
		if !evict.IsEvicted(&all[place]) { // one that is on its way out goes after the first cycle
			court.seen[workload.Key(&all[place])] = all[place].ResourceVersion
		}
	}
	return court, err
}

// fill puts the objects into Kueue's caches, as its controllers do when it starts.
func (c *Court) fill(ctx context.Context, objects *Objects) error {
	log := ctrl.LoggerFrom(ctx)
	for place := range objects.flavors {
		c.cache.AddOrUpdateResourceFlavor(log, &objects.flavors[place])
	}
	for place := range objects.cohorts {
		if err := c.cache.AddOrUpdateCohort(&objects.cohorts[place]); err != nil {
			return err
		}
		c.queues.AddOrUpdateCohort(ctx, &objects.cohorts[place])
	}
	for place := range objects.queues {
		if err := c.cache.AddClusterQueue(ctx, &objects.queues[place]); err != nil {
			return err
		}
		if err := c.queues.AddClusterQueue(ctx, &objects.queues[place]); err != nil {
			return err
		}
	}
	for place := range objects.doors {
		door := &objects.doors[place]
		if known := door.Status.FairSharing; known != nil && known.AdmissionFairSharingStatus != nil {
			used := known.AdmissionFairSharingStatus.ConsumedResources
			c.queues.AfsUsageLedger.SetForTest(utilqueue.Key(door), used, Now)
		}
		if err := c.queues.AddLocalQueue(ctx, door); err != nil {
			return err
		}
	}
	return nil
}

// cycle is one cycle, unless nobody waits: Kueue would stand still then.
func (c *Court) cycle(ctx context.Context) {
	for name, waiting := range c.queues.Dump() {
		if len(waiting) > 0 && c.cache.ClusterQueueActive(name) {
			schedule(c.scheduler, ctx)
			c.writes.Wait()
			return
		}
	}
}

func (c *Court) decision(ctx context.Context) (*Decision, error) {
	made := &Decision{
		Holds:     map[string]Place{},
		Preempted: map[string]Reason{},
		Pending:   map[string]Reason{},
		Waiting:   plain(c.queues.Dump()),
		Parked:    plain(c.queues.DumpInadmissible()),
	}
	all, err := c.workloads(ctx)
	for place := range all {
		made.note(&all[place], c.clock.Now())
	}
	return made, err
}

// note adds what the status of a workload says after the cycle.
func (d *Decision) note(object *kueue.Workload, now time.Time) {
	key := string(workload.Key(object))
	if workload.HasQuotaReservation(object) {
		d.Holds[key] = placed(object.Status.Admission)
	}
	preempted := apimeta.FindStatusCondition(object.Status.Conditions, kueue.WorkloadPreempted)
	if preempted != nil && preempted.Status == "True" && preempted.LastTransitionTime.Time.Equal(now) {
		d.Preempted[key] = Reason{preempted.Reason, preempted.Message}
	}
	reserved := apimeta.FindStatusCondition(object.Status.Conditions, kueue.WorkloadQuotaReserved)
	if reserved != nil && reserved.Status == "False" {
		d.Pending[key] = Reason{reserved.Reason, reserved.Message}
	}
}

func placed(admission *kueue.Admission) Place {
	place := Place{ClusterQueue: string(admission.ClusterQueue), PodSets: []PodSet{}}
	for _, assigned := range admission.PodSetAssignments {
		set := PodSet{Name: string(assigned.Name), Flavors: map[string]string{}, Usage: map[string]string{}}
		if assigned.Count != nil {
			set.Count = *assigned.Count
		}
		for resource, flavor := range assigned.Flavors {
			set.Flavors[string(resource)] = string(flavor)
		}
		for resource, amount := range assigned.ResourceUsage {
			set.Usage[string(resource)] = amount.String()
		}
		place.PodSets = append(place.PodSets, set)
	}
	return place
}

func plain(dump map[kueue.ClusterQueueReference][]workload.Reference) map[string][]string {
	all := map[string][]string{}
	for queue, keys := range dump {
		for _, key := range keys {
			all[string(queue)] = append(all[string(queue)], string(key))
		}
	}
	return all
}
