import { appendFileSync, writeFileSync } from 'node:fs';
import { mkdir, mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { parseArgs } from 'node:util';
import { startEphemeralControlPlane } from '../control-plane/ephemeral.ts';
import { createKubectl, findKubectl } from '../control-plane/kubectl.ts';
import {
  applyCustomResources,
  applyPolicy,
  OPERATOR_NAMESPACE,
} from '../local/custom-resources.ts';
import { startReceiver } from '../receiver/receiver.ts';
import { startSimulator } from '../simulator/simulator.ts';
import { prepareOperator } from './scale/shipped-operator.ts';
import {
  INGEST_TOKEN,
  PUSHED_METRIC,
  RECEIVER_SECRET,
  startActivities,
} from './soak/activities.ts';
import { HOLDINGS, type Holdings, holdingsOf } from './soak/readings.ts';

/**
 * `npm run bench -- soak --hours 2`: the bundle under the StatefulSet's settings on a local cloud, with pods that
 * come and go, a viewer, pushed usage, a destination that comes and goes and the shortest retention that there is.
 * Prints how much memory, descriptors and files it has in the end and had at most, and writes every reading to a file.
 */
const { values } = parseArgs({
  options: {
    hours: { type: 'string', default: '0.1' },
    /** Seconds; a divisor of an hour. */
    window: { type: 'string', default: '10' },
    /** Where each reading is written, one JSON object a line. */
    readings: { type: 'string', default: join(tmpdir(), 'soak.ndjson') },
    /** A folder for heap snapshots, to find what grows: its memory figures are then of no use. */
    snapshots: { type: 'string' },
    /** Minutes between two of them. */
    every: { type: 'string', default: '5' },
  },
});
const hours = Number(values.hours);
const windowSeconds = Number(values.window);
if (!(hours > 0) || !(windowSeconds > 0))
  throw new RangeError('soak: --hours and --window: above 0');

const HOUR_MS = 3_600_000;
const MINUTE_MS = 60_000;
const READ_EVERY_MS = 10_000;
const READY_MS = 120_000;
const DECIMALS = 3;

const directory = await mkdtemp(join(tmpdir(), 'soak-'));
const parts: (() => Promise<unknown>)[] = [() => rm(directory, { recursive: true, force: true })];
try {
  await soak();
} finally {
  for (const part of parts.toReversed()) await part();
}

async function soak(): Promise<void> {
  const plane = await startEphemeralControlPlane();
  parts.push(plane.stop);
  const kubectl = createKubectl(await findKubectl(plane.kubectl), plane.kubeconfigPath);
  const receiver = await startReceiver({
    file: join(directory, 'received.ndjson'),
    secret: RECEIVER_SECRET,
    port: 0,
  });
  parts.push(() => receiver.stop());
  await applyCustomResources(kubectl, { url: receiver.url, secret: RECEIVER_SECRET });
  // Held usage would stay in memory until somebody decides, and nobody does here.
  await applyPolicy(kubectl, { ingest: { unknownTenants: 'create' } });
  const simulator = await startSimulator({
    credentials: plane.credentials,
    truthFile: join(directory, 'truth.ndjson'),
    log: (line) => console.error(line),
  });
  parts.push(() => simulator.stop());
  const data = join(directory, 'data');
  await mkdir(data);
  const shipped = await prepareOperator({
    directory,
    api: { kubeconfig: plane.kubeconfigPath },
    windowSeconds,
    environment: {
      POD_NAMESPACE: OPERATOR_NAMESPACE,
      REGION: 'local',
      PLATFORM_CLUSTER: 'local',
      RETENTION: '1h',
      INGEST_TOKEN,
      CUSTOM_METRICS: PUSHED_METRIC,
    },
  });
  const operator = shipped.start();
  parts.push(() => operator.stop());
  await operator.until(READY_MS, async () => (await fetch(`${operator.address}/readyz`)).ok);
  const activities = startActivities(operator.address, kubectl, receiver);
  parts.push(() => activities.stop());

  const readings: (Holdings & { readonly hours: number })[] = [];
  const begun = performance.now();
  writeFileSync(values.readings, '');
  console.error(`soak: readings go to ${values.readings}`);
  for (let due = 0; due <= hours * HOUR_MS; due += READ_EVERY_MS) {
    await delay(Math.max(0, begun + due - performance.now()));
    const reading = {
      hours: (performance.now() - begun) / HOUR_MS,
      ...(await holdingsOf(operator, data)),
    };
    readings.push(reading);
    appendFileSync(values.readings, `${JSON.stringify(reading)}\n`);
    const minute = due / MINUTE_MS;
    if (values.snapshots !== undefined && minute > 0 && minute % Number(values.every) === 0) {
      await operator.query(`snapshot:${join(values.snapshots, `${minute}.heapsnapshot`)}`);
    }
  }
  const [report] = await operator.reports();
  if (report === undefined) throw new Error('soak: no window was closed');
  const lag = Date.now() - Date.parse(report.window_end);
  const { accepted, conflicts, refused } = receiver.stats();
  const figures = HOLDINGS.flatMap((holding) => {
    const series = readings.map((reading) => reading[holding]);
    return [
      [holding, round(series.at(-1) ?? 0)],
      [`${holding}_most`, round(Math.max(0, ...series))],
    ];
  });
  console.log(
    JSON.stringify({
      bench: 'soak',
      hours,
      window_seconds: windowSeconds,
      ...Object.fromEntries(figures),
      events_accepted: accepted,
      conflicts,
      refused,
      last_window_age_seconds: Math.round(lag / 1000),
      requests_refused: Object.fromEntries(activities.refused),
    }),
  );
}

function round(value: number): number {
  return Number(value.toFixed(DECIMALS));
}
