import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { measureAppend } from './ledger-append.ts';
import { measureStart } from './ledger-start.ts';

/**
 * The ledger beside bare classic-level, which is given the same keys and encoded values in the same
 * batches, synced, in turns; then starting with many events, and reading them all.
 * BENCH_EVENTS: how many events the second part has.
 */
const BATCHES = 150;
const EVENTS = Number(process.env['BENCH_EVENTS'] ?? 5_000_000);

const root = await mkdtemp(join(tmpdir(), 'ledger-bench-'));
try {
  for (const deduplicate of [true, false]) {
    const directory = join(root, `append-${deduplicate}`);
    const figures = await measureAppend({ directory, deduplicate, batches: BATCHES });
    const suffix = deduplicate ? '' : '_no_dedup';
    report(`append_vs_raw${suffix}`, figures.ratio, 'ratio', 'bare classic-level');
    report(`append_p50${suffix}`, figures.p50, 'ms', 'batch of 1000');
    report(`append_p99${suffix}`, figures.p99, 'ms', 'batch of 1000');
    report(`append_raw_p50${suffix}`, figures.rawP50, 'ms', 'batch of 1000');
    report(`append_rate${suffix}`, figures.rate, 'events/s', 'encoding included');
    report(`encode${suffix}`, figures.encode, 'us', 'event');
    report(`disk${suffix}`, figures.bytesPerEvent, 'bytes', 'event');
  }
  const start = await measureStart(join(root, 'start'), EVENTS);
  report('fill_rate', start.fillRate, 'events/s', `${EVENTS} events`);
  report('start_to_ready', start.readySeconds, 's', `${EVENTS} events`);
  report('drain_rate', start.drainRate, 'events/s', `${start.drained} events`);
  report('drain_rss', start.drainRssMiB, 'MiB', `${start.drained} events`);
  report('disk_filled', start.bytesPerEvent, 'bytes', 'event');
} finally {
  await rm(root, { recursive: true, force: true });
}

function report(figure: string, value: number, unit: string, of: string): void {
  const rounded = Number(value.toPrecision(4));
  console.log(JSON.stringify({ bench: 'ledger', figure, value: rounded, unit, of }));
}
