import { readFileSync } from 'node:fs';
import { dirname, join, normalize } from 'node:path';

const ROOT = join(import.meta.dirname, '..');

/** A file on the way of one pod through the code. */
export interface Step {
  readonly file: string;
  /** The function, method or type there that handles the pod or its usage. */
  readonly name: string;
  /** Its action, for docs/explanation/architecture.md. */
  readonly does: string;
}

/**
 * The calls from the watch event of a pod to its delivered usage event, with LevelDB and a webhook,
 * in order. It leaves out helpers such as decimals, event ids and logs. It also leaves out checks
 * of whether this process still leads.
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
    'visitWindowSpans',
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
 * Returns the errors in the steps as sentences; empty if there are none. A step must name something
 * in its file. Its file must import the file of an earlier step, or an earlier step must import it.
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
