import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, globSync } from 'node:fs';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { openLevelLedger } from '../../operator/ledger/leveldb/open-level-ledger.ts';
import { systemClock } from '../../operator/telemetry/system-clock.ts';
import { duckdb } from '../focus/validator.ts';
import { residentBytes } from '../processes/memory.ts';
import { benchWindow } from './ledger-events.ts';

/**
 * A month of a ledger as FOCUS files in Parquet: summed and written by a process that is killed in between and begins again.
 * BENCH_EVENTS: how many events the ledger has.
 */
const EVENTS = Number(process.env['BENCH_EVENTS'] ?? 12_000_000);
const SERIES = 1_000;
const METRICS = 5;
const WINDOWS = Math.ceil(EVENTS / SERIES);
const HOUR_WINDOWS = 60;
const MIB = 1_048_576;
const POLL_MS = 20;
/** As the operator runs (config/operator/stateful-set.yaml). */
const MEMORY_FLAGS = ['--max-old-space-size=576'];

const root = await mkdtemp(join(tmpdir(), 'focus-bench-'));
const [directory, out] = [join(root, 'ledger'), join(root, 'out')];
try {
  await fill();
  const begin = performance.now();
  const killed = await write(WINDOWS / HOUR_WINDOWS / 24 / 2);
  const { rss, anonymous, cpuSeconds } = await write();
  report('seconds', (performance.now() - begin) / 1_000, 's', `${EVENTS} events, killed once`);
  report('cpu_seconds', cpuSeconds, 's', 'the second attempt, all threads');
  report('rss', Math.max(rss, killed.rss) / MIB, 'MiB', `${EVENTS} events`);
  report('anonymous', Math.max(anonymous, killed.anonymous) / MIB, 'MiB', 'without mapped files');
  const files = 'focus-1.2/cost-and-usage/*/*/part-*.parquet';
  const query = `SELECT count(*), count(DISTINCT x_RowId), sum(x_Events) FROM read_parquet('${files}')`;
  const [[rows, distinct, events] = []] = await duckdb(query, out);
  const expected = SERIES * Math.ceil(WINDOWS / HOUR_WINDOWS);
  report('rows', Number(rows), 'rows', `${expected} expected`);
  report('rows_twice', Number(rows) - Number(distinct), 'rows', 'must be 0');
  report('events_missing', EVENTS - Number(events), 'events', 'must be 0');
} finally {
  await rm(root, { recursive: true, force: true });
}

async function fill(): Promise<void> {
  const logger = { debug: () => {}, info: () => {}, warn: console.error, error: console.error };
  const opened = await openLevelLedger({
    directory,
    retentionMs: 1e12,
    clock: systemClock,
    logger,
  });
  if (opened.kind === 'failed') throw new Error(opened.message);
  for (let window = 0; window < WINDOWS; window += 1) {
    const windowEnd = window === WINDOWS - 1 ? Date.UTC(2026, 11, 7) : undefined;
    await opened.ledger.append({ events: benchWindow(window, SERIES), windowEnd });
  }
  await opened.ledger.close();
}

interface Written {
  /** The largest resident memory, bytes. */
  readonly rss: number;
  /** Without the files of the ledger, which LevelDB maps and the kernel takes back when it needs room. */
  readonly anonymous: number;
  readonly cpuSeconds: number;
}

/** Runs the writer, to its end or until some files are there. */
async function write(files = Infinity): Promise<Written> {
  const tenants = Array.from(
    { length: SERIES / METRICS },
    (_, index) => `tenant-vcluster-team-${index}-main`,
  );
  const script = resolve(import.meta.dirname, 'focus-writer.ts');
  const child = spawn(process.execPath, [...MEMORY_FLAGS, script, directory, out, tenants.join()], {
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  let text = '';
  child.stdout.on('data', (chunk: Buffer) => void (text += chunk.toString()));
  const ended = once(child, 'exit');
  const most = { rss: 0, anonymous: 0 };
  while (child.exitCode === null) {
    most.rss = Math.max(most.rss, residentBytes(child.pid, 'VmHWM') || 0);
    most.anonymous = Math.max(most.anonymous, residentBytes(child.pid, 'RssAnon') || 0);
    if (existsSync(out) && globSync('**/*.parquet', { cwd: out }).length >= files) {
      child.kill('SIGKILL');
      await ended;
      return { ...most, cpuSeconds: 0 };
    }
    await new Promise((done) => setTimeout(done, POLL_MS));
  }
  if (child.exitCode !== 0) throw new Error(`focus-writer: exit code ${child.exitCode}`);
  return { ...most, cpuSeconds: Number(text) };
}

function report(figure: string, value: number, unit: string, of: string): void {
  const rounded = Number(value.toPrecision(4));
  console.log(JSON.stringify({ bench: 'focus', figure, value: rounded, unit, of }));
}
