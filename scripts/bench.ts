import { spawnSync } from 'node:child_process';
import { globSync } from 'node:fs';
import { basename, resolve } from 'node:path';

/**
 * `make bench`: runs every `*.bench.ts` under `e2e/bench` one after the other, each in its own
 * process. A bench prints one JSON line for each figure. Arguments select benches by name. The
 * first one with a dash, and all after it, go to the bench: `npm run bench -- scale --pods 10000`.
 */
const root = resolve(import.meta.dirname, '..');
const given = process.argv.slice(2);
const firstOption = given.findIndex((argument) => argument.startsWith('-'));
const wanted = firstOption === -1 ? given : given.slice(0, firstOption);
const options = firstOption === -1 ? [] : given.slice(firstOption);
const all = globSync('e2e/bench/**/*.bench.ts', { cwd: root }).toSorted();
const benches = wanted.length === 0 ? all : [...new Set(wanted.flatMap(benchesOf))];
if (benches.length === 0) {
  console.error(`bench: no e2e/bench/*.bench.ts matches "${wanted.join(' ')}"`);
  process.exit(1);
}

for (const bench of benches) {
  const { status, signal } = spawnSync(process.execPath, ['--expose-gc', bench, ...options], {
    cwd: root,
    stdio: 'inherit',
  });
  if (status !== 0) {
    console.error(`bench: ${bench}: ended with ${signal ?? status}`);
    process.exitCode = 1;
  }
}

/** Returns the bench with this name, or else the benches whose names contain it. */
function benchesOf(name: string): readonly string[] {
  const exact = all.filter((file) => basename(file, '.bench.ts') === name);
  return exact.length > 0 ? exact : all.filter((file) => file.includes(name));
}
