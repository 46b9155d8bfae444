"""A language model in any lab: pre-trained through the loss of a node, fine-tuned, asked through one more."""

from __future__ import annotations

import io
import json
import re
from typing import Any

from lab.evidence.ledger import number
from tests.e2e.harness import PATIENCE, Shell
from tests.e2e.receipts import assert_recovered
from tests.waiting import eventually

STEPS = 200


class LanguageModelTests:
    """What the recipe `llm` must do. `shell` is a lab that is up, with two workers."""

    gpus = 0
    """Of each replica that answers the batch."""

    def on_head(self, shell: Any, *argv: str) -> str:
        """Run a program where the head's loopback is; returns its output."""
        raise NotImplementedError

    def submit(self, shell: Shell, **settings: object) -> str:
        given = {"size": "0.1m", "megabytes": 1, "gpus": 0, **settings}
        pairs = [
            word for name, value in given.items() for word in ("-p", f"{name.replace('_', '-')}={value}")
        ]
        argv = ("submit", "llm", "--detach", "--json", *pairs)
        return str(shell.labctl(*argv).document["submission_id"])

    def test_pre_training_loses_a_node_inside_an_epoch_and_no_bit_and_lora_goes_on_from_it(
        self, shell: Shell
    ) -> None:
        job = self.submit(shell, steps=STEPS, dropout=0.1)
        fault = ("fault-inject", shell.where(job), "--job", job, "--after-step", "50", "--control", "--json")
        receipt = shell.labctl(*fault, timeout=4 * PATIENCE).document
        assert_recovered(receipt)
        assert receipt["epoch_key"] == "step"
        assert receipt["control"]["weights"] == "equal"
        assert receipt["control"]["curves"]["exact"] is True, receipt["control"]
        base, again = receipt["checkpoint"]["epoch"], receipt["attempts"][-1]
        assert 50 <= base < STEPS
        assert (again["began_with"], again["last_epoch"]) == (base + 1, STEPS)
        lost = receipt["lost_work"]
        assert lost["unit"] == "step"
        assert lost["amount"] <= lost["checkpoint_interval"] == 10
        pretrained = shell.lab.history(job).runs[-1]
        assert pretrained.last is not None
        passes = number(pretrained.last.metrics["passes"])
        assert passes is not None
        assert passes < 1

        tuned = self.submit(shell, steps=20, text="prose", lora_rank=4, **{"from": pretrained.name})
        shell.succeeds(tuned)
        run = shell.lab.history(tuned).runs[-1]
        assert run.last is not None
        assert run.last.progress == 20
        before, after = (self.file(shell, one, "weights.pt") for one in (pretrained, run))
        assert after.keys() == before.keys()
        assert all((after[name] == weight).all() for name, weight in before.items()), (
            "LoRA leaves them as they are"
        )
        adapter = self.file(shell, run, "adapter.pt")["matrices"]
        assert sum(matrix.numel() for matrix in adapter.values()) == 2 * 4 * (2 * 64 + 64 + 32)

        self.batch_loses_a_node_and_no_prompt(shell, run.name)
        self.jobs_of_two_models_run_beside_each_other(shell, pretrained.name, run.name)

    def batch_loses_a_node_and_no_prompt(self, shell: Shell, run: str) -> None:
        """The third part of the chain: it needs the model that the others have trained."""
        sizes = {
            "prompts": 2048,
            "in-flight": 32,
            "input-tokens": 48,
            "output-tokens": 128,
            "slots": 4,
            "replicas": 2,
            "gpus": self.gpus,
            "check": 48,
        }
        pairs = [word for name, value in {**sizes, "from": run}.items() for word in ("-p", f"{name}={value}")]
        job = self.detached(shell, "llm-batch", *pairs)
        receipt = shell.labctl("jobs", "lose-node", job, "--json", timeout=4 * PATIENCE).document
        assert receipt["verdict"] == "recovered", receipt["checks"]
        assert receipt["ttft_ms"]["all"]["count"] == 2048
        assert receipt["ttft_ms"]["sent again"]["count"] >= 1
        assert receipt["figures"]["most_in_flight"] == 32
        shell.succeeds(job)

    def detached(self, shell: Shell, recipe: str, *pairs: str) -> str:
        return str(shell.labctl("submit", recipe, "--detach", "--json", *pairs).document["submission_id"])

    def jobs_of_two_models_run_beside_each_other(self, shell: Shell, *runs: str) -> None:
        """An endpoint of the first model, and a batch of each: none takes another's replicas or ends them."""

        def settings(run: str, **more: object) -> list[str]:
            given = {"from": run, "cpus": 0.1, "slots": 4, **more}
            return [word for name, value in given.items() for word in ("-p", f"{name}={value}")]

        endpoint = self.detached(shell, "llm-serve", *settings(runs[0]))
        url = eventually(lambda: self.url(shell, endpoint), PATIENCE, "the endpoint is served")
        sizes = {"prompts": 200, "input-tokens": 16, "output-tokens": 32}
        batches = [self.detached(shell, "llm-batch", *settings(run, **sizes)) for run in runs]
        for batch in batches:
            shell.succeeds(batch)
        receipts = [shell.labctl("jobs", "receipt", batch, "--json").document for batch in batches]
        assert [receipt["verdict"] for receipt in receipts] == ["as-expected"] * 2, receipts
        assert len({receipt["plan"]["checkpoint_sha256"] for receipt in receipts}) == 2
        assert self.health(shell, url) == {"status": "ok"}, "the batches left the endpoint alone"
        shell.labctl("jobs", "stop", endpoint)
        eventually(lambda: not self.health(shell, url), PATIENCE, "a stopped endpoint is gone")

    def url(self, shell: Shell, job: str) -> str:
        """The URL that an endpoint's job prints, once it does."""
        assert not shell.lab.jobs.get(job).final, shell.lab.jobs.logs(job)[-3000:]
        served = re.search(r"serving .*: (http://\S+)/v1/completions", shell.lab.jobs.logs(job))
        return served[1] if served else ""

    def health(self, shell: Shell, url: str) -> Any:
        """The document of an endpoint's /health; None where nobody answers."""
        program = (
            "import sys, urllib.request\n"
            "try: print(urllib.request.urlopen(sys.argv[1], timeout=30).read().decode())\n"
            "except OSError: print('null')"
        )
        return json.loads(self.on_head(shell, "python3", "-c", program, f"{url}/health"))

    def file(self, shell: Shell, run: Any, name: str) -> Any:
        """A file of a run's newest checkpoint, as torch reads it from the object store."""
        import torch

        key = f"{run.checkpoints[-1].uri.removeprefix('s3://ray/')}/{name}"
        return torch.load(io.BytesIO(shell.lab.store.get(key)), map_location="cpu", weights_only=True)
