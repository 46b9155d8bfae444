"""The patches that make a recovery fast, for the table of all of them (`raylab_switches`)."""

from __future__ import annotations

from raylab_switches import Patch

PATCHES = (
    Patch(
        "checkpoint_guard",
        "a new attempt resumes from the newest checkpoint that is intact, not from the newest one",
        "Ray hands out the last checkpoint whatever has become of its files in the store",
        callback="raylab_recovery.checkpoint_guard.Intact",
    ),
    Patch(
        "forks",
        "Ray's processes and the scripts of jobs are forked from one that has imported Ray, torch, Lightning",
        "importing them takes each process seconds of a core: most of the time from a fault to training",
        where=(("RAYLAB_FORK_FOLDER", ""),),
        callback="raylab_recovery.forks.Learn",
        loaded="forkserver.child",
    ),
    Patch(
        "liveness",
        "a judge beside the head says which nodes are dead; its own delays, and the machine's, do not count",
        "Ray's head counts by its own clock: set to notice soon, one that was late itself loses living nodes",
        where=(("RAYLAB_SERVICE_NAME", ""),),
        callback="raylab_liveness.train.Liveness",
    ),
    Patch(
        "revival",
        "a head, or the part of it, that died by itself is started again; so are workers without a head",
        "`ray start` ends the node with the first of its processes, and nobody starts it again",
        where=(("RAYLAB_SERVICE_NAME", ""),),
    ),
    Patch(
        "elastic",
        "an elastic training counts the nodes anew each time, and leaves out those that refuse connections",
        "Ray looks at the nodes every 20 s, and waits a minute for room on one that is lost",
        callback="raylab_recovery.elastic.Elastic",
    ),
    Patch(
        "teardown",
        "a rank that was killed for want of memory, or lost while its process group was set up, does not "
        "keep the next attempt from starting, and a run that Ray has given up, as of a trial that Tune "
        "stops, begins none",
        "shutting its process group down raises an error that ends the training whatever FailureConfig says; "
        "the other ranks keep their GPUs and CPUs, and the next attempt waits for them for ever; an attempt "
        "of a given-up run reserves CPUs that nobody frees",
        callback="raylab_recovery.teardown.Teardown",
    ),
    Patch(
        "rendezvous",
        "the other ranks join torch's process group only once rank 0 listens for them",
        "a rank that comes a few milliseconds too early sleeps for half a second before it tries again",
        callback="raylab_recovery.rendezvous.Rendezvous",
    ),
    Patch(
        "datasets",
        "an attempt of a trainer without `datasets` has no actor that hands out their shards",
        "it is one process more to start while the ranks take their first step",
        callback="raylab_recovery.datasets.Datasets",
    ),
    Patch(
        "single_puts",
        "a small file of a training goes into the store with one request, not with three",
        "Arrow begins an upload in parts for each file, of which a checkpoint is about eight",
        callback="raylab_recovery.single_puts.SinglePuts",
    ),
    Patch(
        "lone_vote",
        "with torchft a rank that is a replica group by itself does not ask whether a step counts",
        "it is a message and an answer for each step, to hear what the rank itself has said",
        callback="raylab_recovery.lone_vote.LoneVote",
    ),
    Patch(
        "survivors",
        "with torchft the ranks that are left report and save while a lost one is replaced",
        "Ray waits at the next checkpoint until all ranks are there again: the survivors would stand still",
        callback="raylab_recovery.survivors.Survivors",
    ),
    Patch(
        "kept_memory",
        "a rank keeps the memory that a training step frees, for the next one",
        "malloc gives large blocks back to the kernel, and gets them again page by page: a fifth of a step",
        callback="raylab_recovery.kept_memory.KeptMemory",
    ),
)
"""Every patch of fast recovery; the callbacks are loaded in this order."""
