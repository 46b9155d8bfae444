"""What the patches of fast recovery expect of Ray, as `raylab_expectations` looks it up."""

from __future__ import annotations

from raylab_expectations import (
    CALLBACK,
    CONTROLLER,
    GROUP,
    NODE,
    SERVICES,
    START_PROCESS,
    V2,
    WORKER,
    expect,
    expect_text,
)

TYPE_CHECKING = False  # typing's own would cost every process two milliseconds
if TYPE_CHECKING:
    from collections.abc import Mapping

    from raylab_expectations import Expectation

MANAGER = f"{V2}.execution.checkpoint.checkpoint_manager"
GENERATED = "ray.core.generated.gcs_service_pb2"
TORCHFT = "ray.train.v2.torch.torchft_config"
FT = "torchft.manager"
BACKEND = f"{V2}.callbacks.backend_setup"

EXPECTATIONS: Mapping[str, tuple[Expectation, ...]] = {
    "checkpoint_guard": (
        CONTROLLER,
        expect(CALLBACK, "WorkerGroupCallback.before_worker_group_start", "(self, worker_group_context)"),
        expect(MANAGER, "CheckpointManager.register_checkpoint", "(self, training_report)"),
        expect(MANAGER, "CheckpointManager.before_init_train_context", "(self, workers)"),
        expect(MANAGER, "CheckpointManager._assert_checkpoints_exist", "(self)"),
        expect(MANAGER, "CheckpointManager._write_state_to_storage", "(self)"),
        expect(MANAGER, "CheckpointManager._latest_checkpoint_result"),
        expect(MANAGER, "CheckpointManager._checkpoint_results"),
        expect(MANAGER, "CheckpointManager._checkpoint_to_report_index"),
        expect(MANAGER, "CheckpointManager._pending_training_results"),
        expect(MANAGER, "CheckpointManager._storage_context"),
        expect(f"{V2}.exceptions", "CheckpointManagerInitializationError"),
    ),
    "forks": (
        START_PROCESS,
        expect(SERVICES, "propagate_jemalloc_env_var", "(*, jemalloc_path, ...)"),
        expect_text(SERVICES, '"--python_worker_command='),
        expect_text(SERVICES, '"--dashboard_agent_command='),
        expect_text(SERVICES, '"--runtime_env_agent_command='),
        expect_text("ray._private.workers.setup_worker", '"--serialized-runtime-env-context"'),
        expect("ray._private.utils", "update_envs", "(env_vars)"),
        expect("ray._private.utils", "set_omp_num_threads_if_unset", "()"),
        expect("ray._private.utils", "get_visible_accelerator_ids", "()"),
        expect("ray._private.worker", "Worker.original_visible_accelerator_ids"),
        expect("ray.dashboard.consts", "PARENT_HEALTH_CHECK_BY_PIPE"),
        expect("ray.actor", "ActorClassID"),
        expect("ray.scripts.scripts", "cli"),
        expect(f"{V2}.execution.train_fn_utils", "DistributedTrainFnUtils.report", "(self, metrics, ...)"),
        expect_text("psutil", "ppid_map = _ppid_map()"),
    ),
    "liveness": (
        CONTROLLER,
        expect_text(f"{GENERATED}_grpc", "/ray.rpc.NodeInfoGcsService/GetAllNodeInfo"),
        expect_text(f"{GENERATED}_grpc", "/ray.rpc.NodeInfoGcsService/UnregisterNode"),
        expect_text(GENERATED, "nodeDeathInfo"),
        expect(GROUP, "WorkerGroup._poll_workers_and_collect_errors", "(self, timeout)"),
        expect(GROUP, "WorkerGroup._world_rank_to_ongoing_poll"),
        expect(GROUP, "WorkerGroup._worker_health_check_timeout_s"),
    ),
    "revival": (
        expect(NODE, "Node.dead_processes", "(self)"),
        expect(NODE, "Node.start_gcs_server", "(self)"),
        expect(NODE, "Node.start_api_server", "(self, *, include_dashboard, raise_on_failure)"),
        expect(NODE, "Node.start_monitor", "(self)"),
        expect(NODE, "Node.start_log_monitor", "(self)"),
        expect(NODE, "Node.start_ray_client_server", "(self)"),
        expect(NODE, "Node.all_processes"),
        expect(NODE, "Node._gcs_address"),
        expect(NODE, "Node._gcs_client"),
    ),
    "elastic": (
        CONTROLLER,
        expect(
            f"{V2}.execution.scaling_policy.elastic", "ElasticScalingPolicy._get_reserved_resources", "(self)"
        ),
        expect(
            "ray.data._internal.cluster_autoscaler.default_autoscaling_coordinator",
            "_AutoscalingCoordinatorActor.get_reserved_resources",
            "(self, requester_id, recompute=)",
        ),
        expect_text(f"{V2}.execution.scaling_policy.autoscaling_coordinator_client", "self._requester_id"),
        expect_text(
            f"{V2}.execution.scaling_policy.autoscaling_coordinator_client", "_autoscaling_coordinator"
        ),
        expect("ray.train.v2.api.config", "ScalingConfig.elasticity_enabled"),
    ),
    "teardown": (
        CONTROLLER,
        expect(BACKEND, "BackendSetupCallback.before_execution_group_shutdown", "(self, execution_group)"),
        expect("ray.exceptions", "OutOfMemoryError"),
        expect("ray._private.state", "actors", "(actor_id=, ...)"),
        expect_text(GROUP, "callback.before_worker_group_start("),
        expect(GROUP, "WorkerGroup._start", "(self)"),
    ),
    "rendezvous": (
        WORKER,
        expect(
            "ray.train.torch.config",
            "_setup_torch_process_group",
            "(backend, world_rank, world_size, init_method, ...)",
        ),
    ),
    "datasets": (
        CONTROLLER,
        expect(f"{V2}.callbacks.datasets", "RayDatasetShardProvider.__init__", "(self, datasets, ...)"),
        expect(f"{V2}.callbacks.datasets", "RayDatasetShardProvider._dataset_names"),
        expect(f"{V2}.callbacks.datasets", "RayDatasetShardProvider._cached_dataset_shards"),
        expect_text(f"{V2}.callbacks.datasets", "._dataset_manager.shutdown_data_executors.remote("),
    ),
    "single_puts": (
        expect(f"{V2}.execution.storage", "get_fs_and_path", "(storage_path, storage_filesystem=)"),
    ),
    "lone_vote": (
        WORKER,
        expect_text(FT, "should_commit = self._client.should_commit("),
        expect(FT, "Manager.wrap_future", "(self, fut, default, timeout=)"),
        expect(FT, "Manager._group_world_size"),
    ),
    "survivors": (
        CONTROLLER,
        WORKER,
        expect(TORCHFT, "LighthouseServerActor"),
        expect(TORCHFT, "_TorchftBackend._maybe_create_lighthouse_actor", "(self, backend_config)"),
        expect(TORCHFT, "TorchftConfig.lighthouse_kwargs"),
        expect(
            f"{V2}.execution.checkpoint.report_handler",
            "ReportCallbackHandler.after_worker_group_poll_status",
            "(self, worker_group_status)",
        ),
        expect(f"{V2}.execution.checkpoint.report_handler", "ReportCallbackHandler._report_callbacks"),
        expect(
            f"{V2}.execution.context",
            "TrainContext._sync_checkpoint_dir_name_across_ranks",
            "(self, checkpoint_dir_name=)",
        ),
        expect(f"{V2}.execution.worker_group.worker", "RayTrainWorker.clear_result_queue", "(self)"),
        expect(FT, "Manager.start_quorum", "(self, ...)"),
        expect(FT, "Manager.should_commit", "(self, ...)"),
    ),
    "kept_memory": (WORKER,),
}
