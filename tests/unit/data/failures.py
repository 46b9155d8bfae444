"""What failed jobs said: words that Ray 2.60, PyTorch, pyarrow and pip really print, and where they are from.

Words of C++ are quoted from the sources of Ray and PyTorch; test_explain looks those of Python up in what is
installed, so that a new version that says something else is noticed.
"""

from __future__ import annotations

FAILED = "Job entrypoint command failed with exit code 1, last available logs (truncated to 20,000 chars):\n"
"""ray/dashboard/modules/job/job_supervisor.py"""

DRIVER = 'Traceback (most recent call last):\n  File "train.py", line 31, in <module>\n    main()\n'

GROUP = (  # ray/train/v2/api/exceptions.py, ray/train/v2/_internal/execution/worker_group/poll.py
    f"{DRIVER}"
    "ray.train.v2.api.exceptions.WorkerGroupError: Training failed due to worker errors:\n"
    "[Rank 0 Error Snippet]:\n"
)
RANK = 'Traceback (most recent call last):\n  File "train.py", line 9, in train_func\n    work()\n'

DIED = (  # ray/exceptions.py: ActorDiedError
    "The actor died unexpectedly before finishing this task.\n\tclass_name: RayTrainWorker\n"
    "\tactor_id: 0f5e3a1cf4bc2f7bd1e2bb1401000000\n\tpid: 913\n\tnamespace: 1f9b\n\tip: 172.18.0.6\n"
)

LOST = (  # src/ray/gcs/actor/gcs_actor_manager.cc
    f"{GROUP}A worker health check failed.\nWorker info: Worker(...)\n{DIED}"
    "The actor died because its node has died. Node Id: 5f3ac1\n\tthe actor's node was terminated: ...\n"
)

RAISED = (  # ray/train/v2/_internal/execution/failure_handling/default.py
    "(TrainController pid=31) [FailurePolicy] RAISE\n(TrainController pid=31)   Source: worker group\n"
    "(TrainController pid=31)   Error count: 1 (max allowed: 0)\n"
)
CRASHED = (  # src/ray/gcs/actor/gcs_actor_manager.cc
    f"{GROUP}{DIED}The actor is dead because its worker process has died. Worker exit type: SYSTEM_ERROR "
    "Worker exit detail: Worker unexpectedly exits with a connection error code 2. End of file.\n"
)
MERGE = (  # ray/_private/worker.py
    "ValueError: Failed to merge the Job's runtime env {job} with a ray.init's runtime env {own} because of "
    "a conflict. Specifying the same runtime_env fields or the same environment variable keys is not "
    "allowed.\n"
)

LOGS = {
    "tuner-trainer": [  # ray/tune/experiment/experiment.py
        f"{DRIVER}ray.tune.error.TuneError: Improper 'run' - not string nor trainable.\n"
    ],
    "storage-path": [  # ray/train/v2/_internal/execution/storage.py
        f"{GROUP}{RANK}RuntimeError: Unable to set up cluster storage with the following settings:\n"
        "StorageContext<\n  storage_filesystem='local',\n  storage_fs_path='/home/lab/ray_results',\n>\n"
        "Check that all nodes in the cluster have read/write access to the configured storage path.\n"
    ],
    "ray-init": [  # ray/_private/worker.py
        f"{DRIVER}ValueError: When connecting to an existing cluster, num_cpus and num_gpus must not be "
        "provided.\n",
        f"{DRIVER}ValueError: When connecting to an existing cluster, resources must not be provided.\n",
    ],
    "runtime-env-conflict": [
        DRIVER
        + MERGE.format(job="{'working_dir': 'gcs://x.zip', 'env_vars': {}}", own="{'working_dir': '.'}")
    ],
    "cpu-build": [  # raylab_compat/simulated_gpu.py; ray/train/v2/api/exceptions.py: ControllerError
        f"{DRIVER}ray.train.v2.api.exceptions.ControllerError: Training failed due to controller error:\n"
        "raylab: PyTorch 2.10.0+cpu of this lab is a build for the CPU, without NCCL; its nvidia "
        "GPUs need the build cuda\n",
    ],
    "no-gpu": [
        # torch/distributed/distributed_c10d.py
        f"{GROUP}{RANK}RuntimeError: Distributed package doesn't have NCCL built in\n",
        # torch/csrc/distributed/c10d/ProcessGroupNCCL.cpp
        f"{GROUP}{RANK}ValueError: ProcessGroupNCCL is only supported with GPUs, no GPUs found!\n",
        # torch/cuda/__init__.py
        f"{DRIVER}AssertionError: Torch not compiled with CUDA enabled\n",
        # c10/cuda/CUDAFunctions.cpp
        f"{DRIVER}RuntimeError: No CUDA GPUs are available\n",
        # pytorch_lightning/trainer/connectors/accelerator_connector.py
        f"{GROUP}{RANK}pytorch_lightning.utilities.exceptions.MisconfigurationException: No supported gpu "
        "backend found!\n",
    ],
    "module": [
        f"{DRIVER}ModuleNotFoundError: No module named 'torchmetrics'\n",
        f"{GROUP}{RANK}ModuleNotFoundError: No module named 'helpers.data'\n",
        f"{DRIVER}ray.exceptions.RayTaskError(ModuleNotFoundError): ray::work() (pid=7, ip=172.18.0.5)\n"
        '  File "train.py", line 4, in work\n'
        "ModuleNotFoundError: No module named 'cv2'\n",
    ],
    "program": [  # subprocess.py
        f"{DRIVER}"
        '  File "/usr/lib/python3.11/subprocess.py", line 1950, in _execute_child\n'
        "    raise child_exception_type(errno_num, err_msg, err_filename)\n"
        "FileNotFoundError: [Errno 2] No such file or directory: 'ffmpeg'\n",
        f"{GROUP}{RANK}"
        '  File "/usr/lib/python3.13/subprocess.py", line 1974, in _execute_child\n'
        "    raise child_exception_type(errno_num, err_msg, err_filename)\n"
        "    ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^\n"
        "FileNotFoundError: [Errno 2] No such file or directory: 'nvidia-smi'\n",
    ],
    "path": [
        f"{DRIVER}FileNotFoundError: [Errno 2] No such file or directory: '/home/me/data/train.csv'\n",
        f"{GROUP}{RANK}FileNotFoundError: [Errno 2] No such file or directory: 'C:\\\\data\\\\train.csv'\n",
        "/usr/bin/python3.11: can't open file '/tmp/ray/session/train.py': [Errno 2] No such file or "
        "directory\n",
    ],
    "download": [
        # urllib/error.py, as torch.hub meets it
        f"{GROUP}{RANK}urllib.error.URLError: <urlopen error [Errno -3] Temporary failure in name "
        "resolution>\n",
        # requests/adapters.py
        f"{DRIVER}requests.exceptions.ConnectionError: HTTPSConnectionPool(host='example.org', port=443): "
        "Max retries exceeded with url: /model (Caused by NameResolutionError(...))\n",
    ],
    "memory": [  # src/ray/raylet/node_manager.cc
        f"{GROUP}{DIED}Memory on the node (IP: 172.18.0.6, ID: 8c5a) was 3.82GB used / 4.00GB limit (0.955)\n"
        "OOM kill reason: memory usage above threshold\nRay killed 1 worker(s) based on the killing policy\n",
        f"{DRIVER}ray.exceptions.OutOfMemoryError: 1 worker(s) were killed due to the node running low on "
        "memory. \nTop 10 memory users: ...\n",
    ],
    "crowd": [  # lab/probe/raylab_node/crowds.py, and the shell of the entrypoint
        "TooManyProcessesError: this part of the job ran 4740 processes and threads, "
        "it may run 4000: killed\n"
        "Killed\n",
    ],
    "no-failures": [f"{RAISED}{CRASHED}", f"{RAISED}{LOST}"],
    "killed": [  # ray/exceptions.py: WorkerCrashedError
        CRASHED,
        RAISED.replace("allowed: 0", "allowed: 3") + CRASHED,
        RAISED + RAISED.replace("allowed: 0", "allowed: 1") + CRASHED,
        f"{DRIVER}ray.exceptions.WorkerCrashedError: The worker died unexpectedly while executing this task. "
        "Check python-core-worker-*.log files for more information.\n",
    ],
    "gpu-memory": [  # c10/cuda/CUDACachingAllocator.cpp
        f"{GROUP}{RANK}torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a "
        "total capacity of 15.77 GiB of which 1.12 GiB is free.\n",
        f"{DRIVER}torch.OutOfMemoryError: HIP out of memory. Tried to allocate 20.00 MiB.\n",
    ],
    "gpu-driver": [  # c10/cuda/CUDAFunctions.cpp
        f"{GROUP}{RANK}RuntimeError: Unexpected error from cudaGetDeviceCount(). Did you run some cuda "
        "functions before calling NumCudaDevices() that might have already set an error? Error 36: API call "
        "is not supported in the installed CUDA driver\n",
        f"{DRIVER}RuntimeError: The NVIDIA driver on your system is too old (found version 11040). Please "
        "update your GPU driver\n",
        f"{GROUP}{RANK}lightning_fabric.utilities.exceptions.MisconfigurationException: Device should be "
        "CPU, got cuda:0 instead.\n",
    ],
    "gpu-twice": [  # nccl/src/init.cc; torch/csrc/distributed/c10d/NCCLUtils.hpp
        f"{GROUP}{RANK}torch.distributed.DistBackendError: NCCL error in: ProcessGroupNCCL.cpp:3690, invalid "
        "usage (run with NCCL_DEBUG=WARN for details), NCCL version 2.27.5\n"
        "ncclInvalidUsage: This usually reflects invalid usage of NCCL library.\nLast error:\n"
        "Duplicate GPU detected : rank 1 and rank 0 both on CUDA device 1000\n",
    ],
    "node-lost": [LOST],
    "versions": [  # ray/_private/utils.py, ray/scripts/scripts.py
        f"{DRIVER}RuntimeError: Version mismatch: The cluster was started with:\n    Ray: 2.60.0\n"
        "    Python: 3.11.2\nThis process on Ray Client was started with:\n    Ray: 2.42.1\n",
        f"{DRIVER}RuntimeError: Ray version mismatch: cluster has Ray version 2.60.0 but local Ray version "
        "is "
        "2.42.1\n",
    ],
    "working-dir": [  # ray/_private/runtime_env/packaging.py
        f"{DRIVER}ValueError: Package size (612.40MiB) exceeds the maximum size of 512.00MiB. To exclude "
        "large "
        "files, add them to '.gitignore' or '.rayignore' files\n"
    ],
    "packages": [],
    "lightning": [  # ray/train/lightning/_lightning_utils.py
        f"{GROUP}{RANK}RuntimeError: Invalid strategy class: <class 'pytorch_lightning.strategies.ddp."
        "DDPStrategy'>. To use PyTorch Lightning with Ray, the strategy object should be one of "
        "['RayDDPStrategy', 'RayFSDPStrategy', 'RayDeepSpeedStrategy'] class or its subclass.\n",
        f"{GROUP}{RANK}RuntimeError: Invalid cluster environment plugin. The expected class is"
        "`ray.train.lightning.RayLightningEnvironment` but got <class 'TorchElasticEnvironment'>!\n",
    ],
    "two-lightnings": [  # pytorch_lightning/trainer/connectors/accelerator_connector.py
        f"{DRIVER}ValueError: You selected an invalid strategy name: `strategy=<ray.train.lightning."
        "_lightning_utils.RayDDPStrategy object at 0x783283c3b590>`. It must be either a string or an "
        "instance of `pytorch_lightning.strategies.Strategy`.\n",
    ],
    "process-group": [  # torch/distributed/distributed_c10d.py
        f"{GROUP}{RANK}ValueError: trying to initialize the default process group twice!\n"
    ],
    "store-key": [
        # arrow/filesystem/s3_internal.h
        f"{DRIVER}OSError: When initiating multiple part upload for key 'x/a' in bucket 'ray': AWS Error "
        "INVALID_ACCESS_KEY_ID during CreateMultipartUpload operation: The Access Key Id you provided does "
        "not exist in our records.\n",
        f"{GROUP}{RANK}OSError: When listing objects under key 'x' in bucket 'other': AWS Error "
        "ACCESS_DENIED "
        "during ListObjectsV2 operation: Access Denied\n",
        # botocore/exceptions.py
        f"{DRIVER}botocore.exceptions.ClientError: An error occurred (SignatureDoesNotMatch) when calling "
        "the "
        "PutObject operation: The request signature we calculated does not match\n",
        f"{DRIVER}botocore.exceptions.NoCredentialsError: Unable to locate credentials\n",
    ],
    "port": [
        f"{DRIVER}OSError: [Errno 98] Address already in use\n",
        # torch/csrc/distributed/c10d/socket.cpp
        f"{GROUP}{RANK}torch.distributed.DistNetworkError: The server socket has failed to listen on any "
        "local "
        "network address. port: 29500, useIpv6: false, code: -98, name: EADDRINUSE, message: address already "
        "in use\n",
        # ray/_private/services.py
        f"{DRIVER}ValueError: Failed to bind to 127.0.0.1:8265 because it's already occupied. You can use "
        "`ray "
        "start --dashboard-port ...` or `ray.init(dashboard_port=...)` to select a different port.\n",
    ],
    "pickle": [
        # ray/remote_function.py, ray/util/check_serialize.py
        f"{DRIVER}TypeError: Could not serialize the function __main__.work:\n"
        f"{'=' * 61}\nChecking Serializability of <function work at 0x7f>\n{'=' * 61}\n"
        "!!! FAIL serialization: cannot pickle '_thread.lock' object\n"
        "Detected 1 global variables. Checking serializability...\n    Serializing 'lock' <unlocked>...\n"
        f"{'=' * 61}\nVariable: \n\n\tFailTuple(lock [obj=<unlocked>])\n\nwas found to be "
        "non-serializable.\n",
        f"{DRIVER}TypeError: cannot pickle '_thread.lock' object\n",
        f"{DRIVER}_pickle.PicklingError: Can't pickle <function <lambda> at 0x7f>: it's not found\n",
    ],
    "infeasible": [  # ray/train/v2/_internal/exceptions.py
        f"{DRIVER}ray.train.v2.api.exceptions.ControllerError: Training failed due to controller error:\n"
        "The worker group startup timed out after 30.0 seconds waiting for 8 workers. Potential causes "
        "include: "
        "(1) temporary insufficient cluster resources\n"
    ],
}

MESSAGES = {
    # ray/dashboard/modules/job/job_manager.py
    "infeasible": "Job supervisor actor failed to start within 900 seconds. This timeout can be configured "
    "by "
    "setting the environment variable RAY_JOB_START_TIMEOUT_SECONDS. This may be because the job "
    "entrypoint's "
    "specified resources (entrypoint_num_cpus, entrypoint_num_gpus, entrypoint_resources, entrypoint_memory)"
    "aren't available on the cluster.",
    # ray/_private/runtime_env/utils.py, and pip
    "packages": "runtime_env setup failed: Failed to set up runtime environment.\nCould not create the actor "
    "because its associated runtime env failed to be created.\nTraceback (most recent call last):\n"
    "ray._private.runtime_env.utils.SubprocessCalledProcessError: Run cmd[9] failed with the following "
    "details.\n"
    "Command '['python', '-m', 'pip', 'install', '-r', 'x.txt']' returned non-zero exit status 1.\n"
    "Last 50 lines of stdout:\n    WARNING: Retrying (Retry(total=0)) after connection broken by "
    "'NewConnectionError: Failed to establish a new connection'\n    ERROR: Could not find a version that "
    "satisfies the requirement torchmetrics (from versions: none)\n"
    "    ERROR: No matching distribution found for torchmetrics\n",
    # ray/_private/runtime_env/dependency_utils.py
    "versions": "runtime_env setup failed: Failed to set up runtime environment.\nRuntimeError: Changing "
    "the ray "
    "version is not allowed: \n  current version: 2.42.1,   expect version: 2.60.0",
    "killed": "Job entrypoint command failed with exit code -9. No logs available.",
    "crashed": "Job entrypoint command failed with exit code 139, last available logs (truncated to 20,000 "
    "chars):\nSegmentation fault (core dumped)\n",
    "program": "Job entrypoint command failed with exit code 127, last available logs (truncated to 20,000 "
    "chars):\n/bin/sh: 1: train: not found\n",
}
