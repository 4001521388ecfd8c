import { readFileSync } from 'node:fs';
import { dirname, join, normalize } from 'node:path';

const ROOT = join(import.meta.dirname, '..');

/** A file that a reader opens who follows one pod. */
export interface Step {
  readonly file: string;
  /** The function, method or type there that has the pod, or what became of it, in hand. */
  readonly name: string;
  /** What it does with it, for docs/explanation/architecture.md. */
  readonly does: string;
}

/**
 * From the watch event of a pod to its delivered usage event, on LevelDB and to a webhook, in the order of the calls.
 * Helpers that a step calls and comes back from, such as decimals, event ids and logs, are left out, and so are guards
 * that only check whether this process still leads.
 */
export const STEPS: readonly Step[] = [
  step('operator/kubernetes/list-and-watch.ts', 'followWatch', 'reads the watch line by line'),
  step(
    'operator/kubernetes/reflector.ts',
    '#change',
    'dates each change, and notes where the watch goes on',
  ),
  step(
    'operator/kubernetes/live-view.ts',
    'upsert',
    'keeps one view of each object; calls the handlers, later while a window is measured',
  ),
  step('operator/app/watches.ts', 'createWatches', 'names the view and the handlers of each kind'),
  step(
    'operator/metering/timelines/observation.ts',
    'createObservation',
    'has the timelines of each kind',
  ),
  step(
    'operator/metering/timelines/timelines.ts',
    '#see',
    'finds or begins the timeline of the pod, brackets when the change became true',
  ),
  step(
    'operator/metering/timelines/pod.ts',
    'followPod',
    'reads what bears on billing, dates each change',
  ),
  step('operator/metering/timelines/timeline.ts', 'enter', 'ends a span and begins the next'),
  step('operator/metering/windows/collector.ts', '#closeWindows', 'wakes up when a window is due'),
  step(
    'operator/metering/windows/due-windows.ts',
    'next',
    'chooses the window and the scopes that are ready',
  ),
  step(
    'operator/metering/windows/window-closer.ts',
    '#close',
    'measures, assembles, appends, reports',
  ),
  step(
    'operator/metering/windows/measure-window.ts',
    'runMeters',
    'measures scope by scope, contains failures',
  ),
  step('operator/metering/meters/meters.ts', 'METERS', 'names the meters of pods'),
  step('operator/metering/meters/cpu-memory.ts', 'meterCpuAndMemory', 'charges the spans of a pod'),
  step(
    'operator/metering/meters/window-spans.ts',
    'createWindowVisitor',
    'cuts spans at the window and at owners',
  ),
  step('operator/discovery/attribution.ts', 'attribute', 'finds the tenant cluster of the pod'),
  step('operator/metering/meters/tally.ts', 'addTo', 'adds rate × time to a charge, in integers'),
  step(
    'operator/metering/meters/assemble.ts',
    'assembleEvents',
    'makes an event of each charge, rounds once',
  ),
  step(
    'operator/metering/windows/appender.ts',
    'append',
    'repeats until the ledger has the window',
  ),
  step('operator/ledger/ledger.ts', 'AppendBatch', 'the durable sequence, whatever stores it'),
  step('operator/ledger/leveldb/level-ledger.ts', 'append', 'encodes the events'),
  step('operator/ledger/writer.ts', 'Writer', 'joins requests into one write'),
  step('operator/ledger/leveldb/store.ts', 'Store', 'writes and syncs'),
  step(
    'operator/ledger/leveldb/plan-batch.ts',
    'planBatch',
    'drops repeats, numbers what is new, chains and encodes the rows',
  ),
  step(
    'operator/delivery/feeder/feeder.ts',
    '#advance',
    'wakes up when the head of the ledger moves',
  ),
  step('operator/delivery/feeder/pending.ts', 'read', 'reads the events behind the cursor'),
  step(
    'operator/delivery/feeder/send-pass.ts',
    'SendPass',
    'provisions tenants, sends what is ready, narrows a refusal down to its event',
  ),
  step('operator/destinations/destination.ts', 'Destination', 'what every billing system can do'),
  step(
    'operator/destinations/webhook/webhook.ts',
    'send',
    'signs and posts a batch of CloudEvents',
  ),
  step('operator/outbound/http-client.ts', '#attempt', 'checks the address, makes the request'),
];

function step(file: string, name: string, does: string): Step {
  return { file, name, does };
}

const IMPORT = /\bfrom '(\.[^']+)'/g;

function importsOf(file: string, text: string): readonly string[] {
  return [...text.matchAll(IMPORT)].map(([, path = '']) => normalize(join(dirname(file), path)));
}

/**
 * What is wrong with the steps, in sentences; empty when nothing is. A step must name something that its file has, and
 * its file must import the file of an earlier step or be imported by one.
 */
export function problemsOf(steps: readonly Step[]): readonly string[] {
  const problems: string[] = [];
  const imports = new Map<string, readonly string[]>();
  for (const [index, { file, name }] of steps.entries()) {
    let text = '';
    try {
      text = readFileSync(join(ROOT, file), 'utf8');
    } catch {
      problems.push(`no such file: scripts/pod-way.ts: "${file}": name the one that does it now`);
    }
    if (!new RegExp(`(?<![\\w#])${name}\\b`).test(text)) {
      problems.push(`no such name: ${file}: "${name}": name what has the pod in hand there`);
    }
    const own = importsOf(file, text);
    const isLinked = [...imports].some(
      ([earlier, its]) => own.includes(earlier) || its.includes(file),
    );
    if (index > 0 && !isLinked) {
      problems.push(`no import between ${file} and an earlier step: name the file between them`);
    }
    if (imports.has(file)) problems.push(`named twice: ${file}`);
    imports.set(file, own);
  }
  return problems;
}

/** The steps as a numbered list. */
export function wayList(): string {
  return STEPS.map(
    ({ file, name, does }, index) => `${index + 1}. \`${file}\` (\`${name}\`): ${does}`,
  ).join('\n');
}
