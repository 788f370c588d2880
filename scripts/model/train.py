"""Train the sentence model on requests and the tools that serve them.

    python scripts/model/train.py --base FOLDER --catalog FILE --requests FILE --save FILE
    python scripts/model/train.py --base FOLDER --catalog FILE --descriptions --save FILE

InfoNCE with the tools of a batch as negatives. A batch is made of runs of tools of one server, so
that siblings are told apart; tools that are much alike are no negatives of each other. The other
requests for a tool are positives too, since the examples of a tool are compared with requests.
"""

from __future__ import annotations

import argparse
import math
import random
import time
from collections import defaultdict
from collections.abc import Iterator, Sequence
from pathlib import Path

import torch
from network import Network, base_name, read_weights
from safetensors.torch import save_file
from tokenizers import Tokenizer
from torch import Tensor
from torch.nn import functional
from training_texts import Example, described, requested

TEMPERATURE = 0.05
REQUEST_TOKENS, TOOL_TOKENS = 32, 80
SIBLINGS = 8  # tools of one server, one after another in a batch
ALIKE, SIBLING_ALIKE = 0.75, 0.93  # cosines by the base from which a tool is no negative
WARM_UP = 0.06  # of all steps
BETWEEN_REQUESTS = 0.3  # weight of the requests for one tool as each other's positives
JOINED = 0.15  # of the requests get another one joined, which is for another tool
SEED = 7


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--base", type=Path, required=True, help="with model.safetensors")
    parser.add_argument("--start", type=Path, help="weights to start from; the base if left out")
    parser.add_argument("--catalog", type=Path, action="append", required=True)
    parser.add_argument("--requests", type=Path, action="append", default=[])
    parser.add_argument("--descriptions", action="store_true", help="learn from descriptions alone")
    parser.add_argument("--without", type=Path, help="a file of servers to leave out, one a line")
    parser.add_argument("--save", type=Path, required=True)
    parser.add_argument("--epochs", type=float, default=4)
    parser.add_argument("--rate", type=float, default=1e-4)
    parser.add_argument("--tools", type=int, default=48, help="a batch")
    parser.add_argument("--each", type=int, default=3, help="requests a tool and step")
    parser.add_argument("--frozen", type=int, default=3, help="lower layers that stay as they are")
    parser.add_argument("--threads", type=int, default=2)
    options = parser.parse_args()
    torch.manual_seed(SEED)
    torch.set_num_threads(options.threads)
    examples = (
        described(options.catalog)
        if options.descriptions
        else requested(options.catalog, options.requests)
    )
    if options.without:
        left_out = set(options.without.read_text(encoding="utf-8").split("\n"))
        examples = [one for one in examples if one.server not in left_out]
    print(
        f"{len(examples)} tools, {sum(len(one.requests) for one in examples)} requests", flush=True
    )
    network = Network(read_weights(options.start or options.base / "model.safetensors"))
    base = Network(read_weights(options.base / "model.safetensors"))
    tokenizer = Tokenizer.from_file(str(options.base / "tokenizer.json"))
    tokenizer.no_padding()
    Training(network, base, tokenizer, examples, options.frozen).run(options)


class Training:
    def __init__(
        self,
        network: Network,
        base: Network,
        tokenizer: Tokenizer,
        examples: Sequence[Example],
        frozen: int,
    ) -> None:
        self.network, self.examples = network, examples
        self.random = random.Random(SEED)
        self.frozen = frozen
        tools = _tokens(tokenizer, [one.text for one in examples], TOOL_TOKENS)
        flat = [text for one in examples for text in one.requests]
        numbers = iter(range(len(flat)))
        self.requests = [[next(numbers) for _ in one.requests] for one in examples]
        tool_of = [tool for tool, known in enumerate(self.requests) for _ in known]
        tokens = _tokens(tokenizer, flat, REQUEST_TOKENS)
        self.joined: dict[int, tuple[int, int]] = {}
        """For some requests: the number of it with another one joined, and the other's tool."""
        for number in self.random.sample(range(len(flat)), int(JOINED * len(flat))):
            other = self.random.randrange(len(flat))
            self.joined[number] = len(tokens), tool_of[other]
            tokens.append([*tokens[number][:-1], *tokens[other][1:]])
        with torch.no_grad(), torch.autocast("cpu", torch.bfloat16):
            self.tools = network.lower(tools, frozen)
            self.asked = network.lower(tokens, frozen)
            # The base has the same lower layers where they are frozen from the start.
            parts = [base(self.tools[i : i + 256], frozen) for i in range(0, len(tools), 256)]
        self.likeness = torch.cat(parts).float()
        print("states are there", flush=True)

    def run(self, options: argparse.Namespace) -> None:
        steps = int(options.epochs * len(self.examples) / options.tools)
        for name, parameter in self.network.named_parameters():
            first, number, *_ = name.split(".")
            parameter.requires_grad_(first == "layers" and int(number) >= options.frozen)
        trained = [p for p in self.network.parameters() if p.requires_grad]
        optimizer = torch.optim.AdamW(trained, lr=options.rate, weight_decay=0.01, fused=True)
        schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: _rate(step, steps))
        batches = self._batches(options.tools)
        mean, start = 0.0, time.time()
        for step in range(1, steps + 1):
            with torch.autocast("cpu", torch.bfloat16):
                loss = self._loss(next(batches), options.each)
            loss.backward()
            torch.nn.utils.clip_grad_norm_(trained, 1.0)
            optimizer.step()
            optimizer.zero_grad()
            schedule.step()
            mean += (loss.item() - mean) / min(step, 20)
            if step % 20 == 0:
                print(f"{step}/{steps} loss {mean:.3f} {time.time() - start:.0f} s", flush=True)
            if step % 100 == 0 or step == steps:
                self._save(options.save)

    def _save(self, file: Path) -> None:
        weights = {base_name(n): p.detach().clone() for n, p in self.network.named_parameters()}
        save_file(weights, file)

    def _batches(self, size: int) -> Iterator[list[int]]:
        """Places of tools, without end; each round has every tool once."""
        while True:
            by_server: defaultdict[str, list[int]] = defaultdict(list)
            for place, one in enumerate(self.examples):
                by_server[one.server].append(place)
            runs: list[list[int]] = []
            for places in by_server.values():
                self.random.shuffle(places)
                runs += [places[i : i + SIBLINGS] for i in range(0, len(places), SIBLINGS)]
            self.random.shuffle(runs)
            flat = [place for run in runs for place in run]
            for start in range(0, len(flat) - size + 1, size):
                yield flat[start : start + size]

    def _loss(self, batch: Sequence[int], each: int) -> Tensor:
        rows: list[Tensor] = []
        right: list[list[int]] = []
        for place, tool in enumerate(batch):
            known = self.requests[tool]
            for number in self.random.sample(known, min(each, len(known))):
                joined, other = self.joined.get(number, (number, tool))
                rows.append(self.asked[joined])
                right.append([place, batch.index(other)] if other in batch else [place])
        vectors = self.network([*rows, *(self.tools[tool] for tool in batch)], self.frozen)
        asked, tools = vectors[: len(rows)], vectors[len(rows) :]
        is_right = torch.zeros(len(rows), len(batch), dtype=torch.bool)
        for number, places in enumerate(right):
            is_right[number, places] = True
        excluded = self._excluded(batch)  # tool by tool
        alike = (is_right.float() @ excluded.float() > 0) & ~is_right
        scores = (asked @ tools.T).float() / TEMPERATURE
        loss = _contrast(scores.masked_fill(alike, -1e4), is_right)
        loss = loss + 0.5 * _contrast(scores.masked_fill(alike, -1e4).T, is_right.T)
        same = (is_right.float() @ is_right.float().T) > 0
        near = (is_right.float() @ excluded.float() @ is_right.float().T > 0) & ~same
        itself = torch.eye(len(rows), dtype=torch.bool)
        between = (asked @ asked.T).float() / TEMPERATURE
        between = between.masked_fill(near | itself, -1e4)
        has_other = (same & ~itself).any(1)
        if has_other.any():
            loss = loss + BETWEEN_REQUESTS * _contrast(
                between[has_other], (same & ~itself)[has_other]
            )
        return loss

    def _excluded(self, batch: Sequence[int]) -> Tensor:
        """Whether one tool of a batch must not be a negative for the requests for another."""
        vectors = self.likeness[list(batch)]
        servers = [self.examples[tool].server for tool in batch]
        siblings = torch.tensor([[one == other for other in servers] for one in servers])
        least = torch.where(siblings, SIBLING_ALIKE, ALIKE)
        return (vectors @ vectors.T > least) & ~torch.eye(len(batch), dtype=torch.bool)


def _contrast(scores: Tensor, is_right: Tensor) -> Tensor:
    """The mean over rows of the mean log share of what is right."""
    shares = functional.log_softmax(scores, dim=1)
    counts = is_right.sum(1)
    kept = counts > 0
    sums = shares.masked_fill(~is_right, 0).sum(1)
    return -(sums[kept] / counts[kept]).mean()


def _rate(step: int, steps: int) -> float:
    warm = max(1, int(WARM_UP * steps))
    if step < warm:
        return (step + 1) / warm
    return 0.02 + 0.98 * 0.5 * (1 + math.cos(math.pi * (step - warm) / max(1, steps - warm)))


def _tokens(tokenizer: Tokenizer, texts: Sequence[str], most: int) -> list[list[int]]:
    tokenizer.enable_truncation(most)
    return [found.ids for found in tokenizer.encode_batch(list(texts))]


if __name__ == "__main__":
    main()
