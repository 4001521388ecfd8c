import { type ChildProcess, fork, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { expect, test } from 'vitest';
import { ownPart, type Stall, Stalls, type Stretch } from './stalls.ts';

const stall = (from: number, to: number, waited = 0): Stall => {
  return { from, to, late: to - from, waited, ran: 0, collected: 0 };
};

test('what is taken from a stall twice hides it', () => {
  expect(ownPart(stall(0, 600), [])).toBe(600);
  expect(ownPart(stall(0, 600), [{ from: 100, to: 400 }])).toBe(300);
  expect(ownPart(stall(0, 600, 200), [{ from: 100, to: 400 }])).toBe(300);
  expect(ownPart(stall(0, 600, 500), [{ from: 100, to: 400 }])).toBe(100);
});

test('a pause of the machine at another time hides a stall', () => {
  expect(ownPart(stall(1_000, 1_600), [{ from: 0, to: 1_000 }])).toBe(600);
  expect(ownPart(stall(1_000, 1_600), [{ from: 1_500, to: 9_000 }])).toBe(500);
});

test('a stall that is reported late misses what was seen of it before', () => {
  const stalls = new Stalls();
  expect(stalls.take([], [{ from: 100, to: 700 }])).toMatchObject({ own: 0, raw: 0, machine: 600 });
  const reported = { own: 0, disturbed: 20, raw: 620, machine: 0 };
  expect(stalls.take([stall(90, 710)], [])).toMatchObject(reported);
});

test('what the machine left behind is taken for the operator’s doing, or excuses another stall', () => {
  const still = [{ from: 1_000, to: 1_150 }];
  const reported = new Stalls().take(
    [stall(0, 260), stall(900, 1_500), stall(2_000, 2_300)],
    still,
  );
  expect(reported).toMatchObject({ own: 300, disturbed: 450, raw: 600, machine: 150 });
  const short = [{ from: 1_000, to: 1_090 }];
  expect(new Stalls().take([stall(900, 1_500)], short)).toMatchObject({ own: 510, disturbed: 0 });
});

/**
 * Works for half a second of its processor's time whenever it gets a message; at `wait` it gives a thread of the pool
 * more than that to do, and waits for as long.
 */
const BUSY = `
import { pbkdf2 } from 'node:crypto';
pbkdf2('', '', 1, 8, 'sha512', () => undefined);
const usedMs = () => (process.threadCpuUsage().user + process.threadCpuUsage().system) / 1000;
process.on('message', (what) => {
  if (what === 'wait') {
    pbkdf2('', '', 1e8, 8, 'sha512', () => undefined);
    Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 700);
    return;
  }
  for (const end = usedMs() + 500; usedMs() < end; );
});
setInterval(() => undefined, 60_000);
`;

/** A process that only watches its own timers, as the operator does, and one that watches the machine. */
async function watched(
  work: (operator: number, witness: number, child: ChildProcess) => Promise<void>,
) {
  const directory = mkdtempSync(join(tmpdir(), 'stalls-'));
  const busy = join(directory, 'busy.mjs');
  writeFileSync(busy, BUSY);
  const inside = join(import.meta.dirname, '../operator/inside.ts');
  const operator = fork(busy, [], { execArgv: ['--import', inside] });
  const witness = fork(join(import.meta.dirname, 'witness.ts'));
  const reported: Stall[] = [];
  operator.on('message', (report: { readonly stalls: readonly Stall[] }) => {
    reported.push(...report.stalls);
  });
  try {
    await Promise.all([once(operator, 'message'), once(witness, 'message')]);
    reported.length = 0;
    await work(operator.pid ?? 0, witness.pid ?? 0, operator);
    // It has reported what was before, so that the next is a stall by itself.
    await once(operator, 'message');
    operator.send('busy');
    // What is asked of it is done before the report after the next.
    for (let reports = 0; reports < 3; reports += 1) await once(operator, 'message');
    witness.send({ id: 1 });
    const [{ still }] = (await once(witness, 'message')) as [{ readonly still: Stretch[] }];
    return { reported, still };
  } finally {
    operator.kill('SIGKILL');
    witness.kill('SIGKILL');
    rmSync(directory, { recursive: true });
  }
}

async function standStill(...pids: readonly number[]): Promise<void> {
  for (const pid of pids) process.kill(pid, 'SIGSTOP');
  await delay(700);
  for (const pid of pids) process.kill(pid, 'SIGCONT');
}

test('a machine that stands still is taken for a stall of the operator, or hides one', async () => {
  const { reported, still } = await watched((operator, witness) => standStill(operator, witness));
  const [paused, busy] = reported
    .filter(({ late }) => late > 400)
    .map((each) => ownPart(each, still));
  expect(paused).toBeLessThan(100);
  expect(busy).toBeGreaterThan(300);
  expect(new Stalls().take(reported, still).machine).toBeGreaterThan(600);
});

/** Has threads of a process share one processor with many others. */
async function starve(pid: number, name: string): Promise<() => void> {
  const threads = readdirSync(`/proc/${pid}/task`).filter((thread) =>
    readFileSync(`/proc/${pid}/task/${thread}/comm`, 'latin1').startsWith(name),
  );
  for (const thread of threads) await once(spawn('taskset', ['-cp', '0', thread]), 'exit');
  const others = Array.from({ length: 12 }, () =>
    spawn('taskset', ['-c', '0', process.execPath, '-e', 'for (;;);']),
  );
  await delay(500);
  return () => {
    for (const other of others) other.kill('SIGKILL');
  };
}

test('a thread of the pool that gets no processor, while the main thread waits for it, is the operator’s doing', async () => {
  const { reported, still } = await watched(async (operator, _, child) => {
    const stop = await starve(operator, 'libuv-worker');
    child.send('wait');
    await delay(1_500);
    stop();
  });
  const waits = reported.filter(({ late, ran }) => late > 500 && ran < 200);
  expect(waits.length).toBeGreaterThan(0);
  for (const each of waits) expect(ownPart(each, still)).toBeLessThan(350);
});

test('a stall of the operator alone is taken for one of the machine', async () => {
  const { reported, still } = await watched((operator) => standStill(operator));
  const own = reported.map((each) => ownPart(each, still)).toSorted((a, b) => b - a);
  expect(own[0]).toBeGreaterThan(500);
});
