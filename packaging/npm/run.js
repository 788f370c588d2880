#!/usr/bin/env node
// Runs the Python program of the same name and version, through the first of uvx and pipx that is installed.

import { spawn, spawnSync } from "node:child_process";
import { createRequire } from "node:module";
import { constants } from "node:os";

const { name, version } = createRequire(import.meta.url)("./package.json");
const RUNNERS = [
  ["uvx", `${name}@${version}`],
  ["pipx", "run", `${name}==${version}`],
];

const runner = RUNNERS.find(([program]) => !spawnSync(program, ["--version"], { stdio: "ignore" }).error);
if (!runner) {
  console.error(`error: ${name} is a Python program, and neither uvx nor pipx is on PATH`);
  console.error("  hint: install uv (https://docs.astral.sh/uv/), or `python3 -m pip install --user pipx`");
  process.exit(6);
}
const child = spawn(runner[0], [...runner.slice(1), ...process.argv.slice(2)], { stdio: "inherit" });
for (const signal of ["SIGINT", "SIGTERM", "SIGHUP"]) {
  process.on(signal, () => child.kill(signal));
}
child.on("exit", (code, signal) => process.exit(code ?? 128 + constants.signals[signal]));
