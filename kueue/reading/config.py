"""Reader of Kueue's Configuration, as far as decisions depend on it."""

from __future__ import annotations

from dataclasses import replace

from kueue.model import (
    CREATION,
    EVICTION,
    FINAL_SHARE,
    INITIAL_SHARE,
    AdmissionFairSharing,
    Config,
    WaitForPodsReady,
)
from kueue.reading.nodes import At

STRATEGIES = ((FINAL_SHARE,), (INITIAL_SHARE,), (FINAL_SHARE, INITIAL_SHARE))

ELSEWHERE = (
    *("namespace", "webhook", "leaderElection", "metrics", "health", "pprofBindAddress", "controller", "tls"),
    *("manageJobsWithoutQueueName", "managedJobsNamespaceSelector", "internalCertManagement"),
    *("clientConnection", "integrations", "visibilityServer", "queueVisibility"),
)
"""Fields about how Kueue itself runs: no decision depends on them."""


def config(at: At, old: bool) -> Config:
    """A Configuration; `old` is v1beta1, where parts of it are switched on by `enable`."""
    given = at.fields(
        ("fairSharing", "waitForPodsReady", "admissionFairSharing", "resources", "objectRetentionPolicies"),
        refused={
            "multiKueue": "the lab is one cluster",
            "featureGates": "the lab decides as Kueue does with its default gates",
        },
        passed=("apiVersion", "kind", "metadata", *ELSEWHERE),
    )
    settings = Config()
    if "fairSharing" in given:
        settings = replace(settings, strategies=_strategies(given["fairSharing"], old))
    if "waitForPodsReady" in given:
        settings = replace(settings, pods_ready=_pods_ready(given["waitForPodsReady"], old))
    if "admissionFairSharing" in given:
        settings = replace(settings, admission_fair_sharing=_admission(given["admissionFairSharing"]))
    if "resources" in given:
        left_out = "what is asked for counts as it is"
        resources = given["resources"].fields(
            ("quotaCheckStrategy",),
            refused={
                "excludeResourcePrefixes": left_out,
                "transformations": left_out,
                "deviceClassMappings": "the lab knows no dynamic resource allocation",
            },
        )
        if "quotaCheckStrategy" in resources:
            strategy = resources["quotaCheckStrategy"].choice(("BlockUndeclared", "IgnoreUndeclared"))
            settings = replace(settings, ignore_undeclared=strategy == "IgnoreUndeclared")
    if "objectRetentionPolicies" in given:
        settings = replace(settings, keep_finished=_retention(given["objectRetentionPolicies"]))
    return settings


def _retention(at: At) -> float | None:
    given = at.fields(("workloads",))
    if "workloads" not in given:
        return None
    kept = "a deactivated workload can be activated again, so it is kept"
    times = given["workloads"].fields(("afterFinished",), refused={"afterDeactivatedByKueue": kept})
    return times["afterFinished"].duration() if "afterFinished" in times else None


def _strategies(at: At, old: bool) -> tuple[str, ...] | None:
    needed = () if old else ("preemptionStrategies",)  # only v1beta1 has a default
    given = at.fields(("preemptionStrategies", *(("enable",) if old else ())), required=needed)
    if old and not ("enable" in given and given["enable"].boolean()):
        return None
    if "preemptionStrategies" not in given:
        return FINAL_SHARE, INITIAL_SHARE
    names = tuple(
        strategy.choice((FINAL_SHARE, INITIAL_SHARE)) for strategy in given["preemptionStrategies"].items(1)
    )
    if names and names not in STRATEGIES:
        given["preemptionStrategies"].wrong(f"must be {FINAL_SHARE}, {INITIAL_SHARE}, or both in this order")
    return names or (FINAL_SHARE, INITIAL_SHARE)


def _pods_ready(at: At, old: bool) -> WaitForPodsReady | None:
    known = ("timeout", "blockAdmission", "requeuingStrategy", "recoveryTimeout")
    given = at.fields((*known, *(("enable",) if old else ())))
    if old and not ("enable" in given and given["enable"].boolean()):
        return None
    policy = WaitForPodsReady(timeout=300.0, block_admission=True) if old else WaitForPodsReady()
    if "timeout" in given:
        policy = replace(policy, timeout=given["timeout"].duration())
        if policy.timeout <= 0:
            given["timeout"].wrong("must be more than 0")
    if "recoveryTimeout" in given:
        policy = replace(policy, recovery_timeout=given["recoveryTimeout"].duration())
    if "blockAdmission" in given:
        policy = replace(policy, block_admission=given["blockAdmission"].boolean())
    if "requeuingStrategy" in given:
        policy = _requeuing(policy, given["requeuingStrategy"])
    return policy


def _requeuing(policy: WaitForPodsReady, at: At) -> WaitForPodsReady:
    given = at.fields(("timestamp", "backoffLimitCount", "backoffBaseSeconds", "backoffMaxSeconds"))
    if "timestamp" in given:
        policy = replace(policy, timestamp=given["timestamp"].choice((EVICTION, CREATION)))
    if "backoffLimitCount" in given:
        policy = replace(policy, backoff_limit=given["backoffLimitCount"].integer(0))
    if "backoffBaseSeconds" in given:
        policy = replace(policy, backoff_base=float(given["backoffBaseSeconds"].integer(0)))
    if "backoffMaxSeconds" in given:
        policy = replace(policy, backoff_max=float(given["backoffMaxSeconds"].integer(0)))
    return policy


def _admission(at: At) -> AdmissionFairSharing:
    known = ("usageHalfLifeTime", "usageSamplingInterval", "resourceWeights")
    given = at.fields(known)
    fair = AdmissionFairSharing(half_life=0.0)
    if "usageHalfLifeTime" in given:
        fair = replace(fair, half_life=given["usageHalfLifeTime"].duration())
    else:
        at.warn("has no usageHalfLifeTime, so what a LocalQueue used does not count")
    if "usageSamplingInterval" in given:
        fair = replace(fair, sampling=given["usageSamplingInterval"].duration())
        if fair.sampling <= 0:
            given["usageSamplingInterval"].wrong("must be more than 0")
    if "resourceWeights" in given:
        weights = {}
        for name, value in given["resourceWeights"].mapping().items():
            weights[name] = value.number()
            if weights[name] < 0:
                value.wrong("must be 0 or more")
        fair = replace(fair, weights=weights)
    return fair
