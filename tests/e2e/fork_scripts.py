"""Scripts that print what a process is like: the same whether it was forked or started in the ordinary way."""

from __future__ import annotations

import sys

SCRIPTS: dict[str, str | bytes] = {
    "arguments": "import sys; print(sys.argv, sys.orig_argv[1:], __name__, __file__, __spec__, __doc__)",
    "docstring": '"""What it is."""\nprint(__doc__, sorted(k for k in globals() if k != "__annotations__"))',
    "future annotations": "from __future__ import annotations\nx: Unknown = 1\nprint(x, __annotations__)",
    "main module": "import sys, pickle\nclass A: pass\nprint(sys.modules['__main__'].A is A, A.__module__)",
    "folder and environment": "import os; print(os.getcwd(), os.environ['GREETING'], 'RAYLAB_FORK_FOLDER' in os.environ)",
    "search path": "import sys; print(sys.path[:3], len(sys.path) == len(set(sys.path)))",
    "own module": "import helper_of_mine; print(helper_of_mine.WORD)",
    "stdin": "import sys; print(repr(sys.stdin.read()), sys.stdin.encoding, sys.stdin.errors)",
    "streams": (
        "import sys\nfor s in (sys.stdin, sys.stdout, sys.stderr):\n"
        "  print(s.name, s.mode, s.encoding, s.errors, s.line_buffering, s.fileno(), s.isatty())"
    ),
    "both streams": "import sys; print('out'); print('err', file=sys.stderr)",
    "exit code": "import sys; sys.exit(7)",
    "exit text": "import sys; sys.exit('it went wrong')",
    "exit none": "import sys; sys.exit()",
    "traceback": "def f(x):\n    return 1 / x\nprint('before')\nf(0)",
    "chained traceback": "try:\n    {}['a']\nexcept KeyError as e:\n    raise ValueError('b') from e",
    "syntax error": "print('before')\ndef f(:\n  pass",
    "hook": "import sys\nsys.excepthook = lambda *a: print('hooked', a[0].__name__)\nraise RuntimeError",
    "exit handlers": "import atexit; atexit.register(print, 'one'); atexit.register(print, 'two'); print('zero')",
    "threads are waited for": (
        "import threading, time\nthreading.Thread(target=lambda: (time.sleep(0.3), print('late'))).start()\nprint('soon')"
    ),
    "main thread": "import threading; print(threading.current_thread() is threading.main_thread(), threading.active_count())",
    "killed by a signal": "import os, signal; os.kill(os.getpid(), signal.SIGUSR1)",
    "killed for good": "import os, signal; os.kill(os.getpid(), signal.SIGKILL)",
    "abort": "import os; os.abort()",
    "interrupted": "import os, signal, time; os.kill(os.getpid(), signal.SIGINT); time.sleep(5)",
    "hard exit": "import os; print('x', flush=True); os._exit(9)",
    "signal handlers": (
        "import signal\nprint([str(signal.getsignal(s)).split(' at ')[0] for s in (signal.SIGINT, signal.SIGTERM, "
        "signal.SIGHUP, signal.SIGCHLD, signal.SIGPIPE, signal.SIGUSR1)], signal.set_wakeup_fd(-1))"
    ),
    "flags": "import sys; print(sys.flags, sys.executable, sys.prefix, sys.warnoptions, sys.dont_write_bytecode)",
    "warnings": "import warnings; warnings.warn('careful')",
    "limits": "import resource; print([resource.getrlimit(n) for n in range(10)])",
    "umask and priority": "import os; m = os.umask(0); print(oct(m), os.getpriority(os.PRIO_PROCESS, 0), os.sched_getscheduler(0))",
    "descriptors": "import os; print(sorted(int(n) for n in os.listdir('/proc/self/fd') if int(n) < 3))",
    "time zone": "import time; print(time.tzname)",
    "threads of torch": (
        "import torch, threadpoolctl, sklearn.datasets\n"
        "print(torch.get_num_threads(), sorted({(p['user_api'], p['num_threads']) for p in threadpoolctl.threadpool_info()}))"
    ),
    "a small training": (
        "import torch\ntorch.manual_seed(7)\nm = torch.nn.Linear(64, 8); o = torch.optim.Adam(m.parameters())\n"
        "x, y = torch.randn(512, 64), torch.randn(512, 8)\n"
        "for _ in range(20):\n  o.zero_grad(); l = ((m(x) - y) ** 2).mean(); l.backward(); o.step()\nprint(l.item().hex())"
    ),
    "data loader": (
        "import torch\nif __name__ == '__main__':\n  d = torch.utils.data.DataLoader(range(8), 2, num_workers=2)\n"
        "  print([b.tolist() for b in d])"
    ),
    "lightning's second name": "import lightning.pytorch as pl, pytorch_lightning; print(pl is pytorch_lightning)",
    "logging": "import logging; print(logging.getLogger().handlers, logging.getLogger().level); logging.warning('w')",
    **{
        f"multiprocessing {method}": (
            "import multiprocessing as mp, sys\ndef f(x): return x * x, __name__ == '__main__'\n"
            "if __name__ == '__main__':\n"
            f"  with mp.get_context('{method}').Pool(2) as p: print(sorted(p.map(f, range(4))))"
        )
        for method in ("fork", "spawn", "forkserver")
    },
    "subprocess": (
        "import subprocess, sys\n"
        "print(subprocess.run([sys.executable, '-c', 'import os; print(os.environ[\"GREETING\"])'], capture_output=True, text=True))"
    ),
    "ray's commands": "from ray.scripts import scripts; print(sorted(scripts.cli.commands))",
    "GPUs that Ray goes by": (
        "from ray._private import worker; print(worker.global_worker.original_visible_accelerator_ids['GPU'])"
    ),
    "full output": "print('x' * 300_000)",
    "closed pipe": "import sys; sys.stdout.close()",
    "variables of the main module": "print(list(globals()), type(__builtins__).__name__, __loader__.name)",
    "command line": (
        "import psutil\nprint(open('/proc/self/cmdline').read().split(chr(0)), open('/proc/self/comm').read())\n"
        "print(psutil.Process().name(), psutil.Process().cmdline())"
    ),
    "threads": (
        "import threading\nmain, other = threading.main_thread(), threading.Thread()\n"
        "print(other.name, main.native_id == threading.get_native_id(), main.ident == threading.get_ident())"
    ),
    "stack": (
        "import sys, warnings\nwarnings.warn('of whoever called', stacklevel=2)\n"
        "f = sys._getframe(); print([f.f_code.co_name for f in (f, f.f_back) if f and '_bootstrap' not in f.f_code.co_filename])"
    ),
    "warning shown once more": "import warnings\nfor _ in range(2): warnings.warn('careful')",
    "finalized at the end": (
        "import weakref\nclass A:\n  def __init__(s, n): s.n = n\n  def __del__(s): print('gone', s.n, helper)\n"
        "helper = 5\na, _b, c = A('a'), A('b'), [A('c')]; a.me = a; weakref.finalize(c[0], print, 'finalized')\n"
        "def f(): return a"
    ),
    "finalized in a module": "import helper_of_mine; helper_of_mine.last = helper_of_mine.Last(); print('x')",
    "a file that is left open": (
        "import atexit, os\nf = open('left.txt', 'w'); f.write('kept')\n"
        "print(os.path.getsize('left.txt')); atexit.register(print, 'soon')"
    ),
    "output of a library in C": "import ctypes, sys; ctypes.CDLL(None).printf(b'from C\\n'); sys.exit(3)",
    "output that a hard exit loses": "import os; print('x' * 3000); print('y' * 3000); os._exit(0)",
    "line ends of stdin": "import sys; print(repr(sys.stdin.readline())); print(repr(input()))",
    "hook that fails": "import sys\ndef h(*a): raise ValueError('in it')\nsys.excepthook = h\nraise RuntimeError('x')",
    "hook that exits": "import sys\nsys.excepthook = lambda *a: sys.exit(9)\nraise RuntimeError('x')",
    "last error": (
        "import sys, atexit\natexit.register(lambda: print(sys.last_type, sys.last_value, sys.last_traceback.tb_lineno))\n"
        "raise RuntimeError('x')"
    ),
    "no last error": "import sys, atexit\natexit.register(lambda: print(hasattr(sys, 'last_type'), sys.exc_info()))",
    "interrupt of ones own": "class Mine(KeyboardInterrupt): pass\nraise Mine('x')",
    "exit code below 0": "import sys; sys.exit(-3)",
    "an older encoding": "# -*- coding: latin-1 -*-\nprint(ascii('\xe9'))\n".encode("latin-1"),
    "shared memory that is left": (
        "from multiprocessing import shared_memory\n"
        "shared_memory.SharedMemory(create=True, size=10); print('left')"
    ),
    "fork of ones own": (
        "import os, sys\nif os.fork() == 0: sys.exit(3)\n"
        "print(os.waitstatus_to_exitcode(os.wait()[1]), sorted(n for n in map(int, os.listdir('/proc/self/fd')) if n < 9))"
    ),
    "signals that are ignored": (
        "import signal\nprint([s.name for s in signal.valid_signals() if isinstance(s, signal.Signals)"
        " and signal.getsignal(s) is signal.SIG_IGN])"
    ),
    "handler of SIGTERM": (
        "import os, signal, sys, time\nsignal.signal(signal.SIGTERM, lambda *a: sys.exit(12))\n"
        "os.kill(os.getpid(), signal.SIGTERM); time.sleep(5)"
    ),
    "alarm": "import signal, time\nsignal.alarm(1); time.sleep(5)",
    "a shell and its pipe": "import os; os.system('echo one | cat; kill -USR1 $$')",
    # Python 3.10 says it in other words
    **({"bytes that are no text": b"# \xff\nprint(1)\n"} if sys.version_info >= (3, 11) else {}),
}
