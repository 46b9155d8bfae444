package main

import (
	"context"
	"slices"

	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	kueue "sigs.k8s.io/kueue/apis/kueue/v1beta2"
	"sigs.k8s.io/kueue/pkg/workload"
	"sigs.k8s.io/kueue/pkg/workload/evict"
)

// Events are what happens before a cycle: workloads come, and others, by their keys, end.
type Events struct {
	Arrive []kueue.Workload `json:"arrive"`
	Finish []string         `json:"finish"`
}

// happen does to caches and queues what the workload controller of Kueue does then.
func (c *Court) happen(ctx context.Context, events Events) error {
	log := ctrl.LoggerFrom(ctx)
	all, err := c.workloads(ctx)
	if err != nil {
		return err
	}
	for place := range all {
		key := workload.Key(&all[place])
		if !slices.Contains(events.Finish, string(key)) {
			continue
		}
		if err := c.client.Delete(ctx, &all[place]); err != nil {
			return err
		}
		if workload.HasQuotaReservation(&all[place]) {
			c.queues.QueueAssociatedInadmissibleWorkloadsAfter(ctx, key, func() {
				_ = c.cache.DeleteWorkload(log, key)
			})
		}
		c.queues.DeleteAndForgetWorkload(log, key)
	}
	for place := range events.Arrive {
		object := &events.Arrive[place]
		if err := c.client.Create(ctx, object); err != nil {
			return err
		}
		if err := c.client.Get(ctx, client.ObjectKeyFromObject(object), object); err != nil { // as it is stored
			return err
		}
		c.seen[workload.Key(object)] = object.ResourceVersion
		if err := c.queues.AddOrUpdateWorkload(log, object); err != nil {
			return err
		}
	}
	c.requeue(ctx)
	return nil
}

// control does what the controllers of jobs and workloads do after a cycle: who was preempted gives its quota back and
// queues again, and every other change of a status reaches caches and queues.
func (c *Court) control(ctx context.Context) error {
	log := ctrl.LoggerFrom(ctx)
	all, err := c.workloads(ctx)
	if err != nil {
		return err
	}
	for place := range all {
		object := &all[place]
		key := workload.Key(object)
		if c.seen[key] == object.ResourceVersion {
			continue
		}
		c.seen[key] = object.ResourceVersion
		switch {
		case workload.HasQuotaReservation(object) && evict.IsEvicted(object):
			workload.SetRequeuedCondition(object, kueue.WorkloadEvictedByPreemption, "", true)
			workload.UnsetQuotaReservationWithCondition(object, "Pending", "", c.clock.Now())
			if err := c.client.Status().Update(ctx, object); err != nil {
				return err
			}
			c.seen[key] = object.ResourceVersion
			c.queues.QueueAssociatedInadmissibleWorkloadsAfter(ctx, key, func() {
				_ = c.cache.DeleteWorkload(log, key)
				_ = c.queues.AddOrUpdateWorkloadWithoutLock(log, object)
			})
		case workload.HasQuotaReservation(object):
			c.queues.DeleteWorkload(log, key)
			c.cache.AddOrUpdateWorkload(log, object)
		default:
			_ = c.queues.AddOrUpdateWorkload(log, object)
		}
	}
	c.requeue(ctx)
	return nil
}

func (c *Court) workloads(ctx context.Context) ([]kueue.Workload, error) {
	var list kueue.WorkloadList
	err := c.client.List(ctx, &list)
	return list.Items, err
}
