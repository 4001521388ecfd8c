import { appendFileSync, readFileSync, writeFileSync } from 'node:fs';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import type { ControlPlane } from '../control-plane/control-plane.ts';
import { OPERATOR_NAMESPACE } from '../local/custom-resources.ts';
import { type RunningOperator, startOperator } from '../local/operator-process.ts';
import { type RunFiles, runFiles } from '../local/run-directory.ts';
import { parseEvents, type ReceivedEvent } from '../long/received.ts';
import { createApiClient } from '../simulator/api-client.ts';
import { TENANT_CLUSTERS } from '../simulator/cloud.ts';
import { NODES } from '../simulator/nodes.ts';
import { startSimulator } from '../simulator/simulator.ts';
import { type ClosedWindow, compareLasting } from './compare-lasting.ts';
import { compareNodes, type NodeComparison } from './compare-nodes.ts';
import { comparePods, type PodComparison } from './compare-pods.ts';
import { type Explained, explainSome } from './explained.ts';
import { injectFaults } from './faults.ts';
import type { MetricFigures } from './figures.ts';
import { renewLeases } from './leases.ts';
import { GPU_MODES, GPU_RESOURCES } from './modes.ts';
import { changeLabels, createFlakyNodes, replaceNodes } from './node-changes.ts';
import { ensureGpuNodes } from './nodes.ts';
import { startWorkload } from './workload.ts';

/** Flags that the API server needs: nodes come without a taint, and old versions are forgotten soon. */
export const API_SERVER_FLAGS = {
  // Old versions are forgotten quickly, so that watches expire within a short run.
  'etcd-compaction-interval': '20s',
  // No taint at the door, which nothing but a node controller would take off again.
  'disable-admission-plugins': 'ServiceAccount,TaintNodesByCondition',
};

export interface AccuracyOptions {
  readonly plane: Pick<
    ControlPlane,
    'credentials' | 'kubeconfigPath' | 'stopApiServer' | 'startApiServer'
  >;
  readonly seed: number;
  /** How long pods are started and faults are injected; waiting for the end comes on top. */
  readonly durationMs: number;
  readonly log: (line: string) => void;
}

export interface AccuracyResult {
  readonly metrics: readonly MetricFigures[];
  readonly pods: Omit<PodComparison, 'metrics'>;
  readonly nodes: Omit<NodeComparison, 'metrics'>;
  readonly explained: Explained;
  readonly windows: number;
  /**
   * Events with seconds of closed windows: what was told later than the settling delay is billed right
   * for the tenant, but not pod by pod, so that there must be none for the figures to be of use.
   */
  readonly lateFacts: number;
  /** How many things were billed beyond the truth of those that nobody saw end. */
  readonly overbilled: number;
  /** How far off an event says that what nobody saw may be; the largest of all, seconds. */
  readonly uncertainSecondsMax: number;
  /** Ids that the ledger has more than once. */
  readonly repeated: number;
  /** GPU time that was installed and is neither billed, idle, down nor the system's, over all windows. */
  readonly unaccountedGpuSeconds: number;
}

const WINDOW_MS = 10_000;
const STARTS_PER_SECOND = 10;

/**
 * Drives a simulated cluster on a real API server, kills and restarts what can be, and holds the
 * bills against the times that the API carried: of short-lived pods with GPUs of every mode, of nodes
 * that go down, of whole nodes that come and go, and of what is there all the time.
 */
export async function measureAccuracy(options: AccuracyOptions): Promise<AccuracyResult> {
  const { plane, log } = options;
  const files = runFiles(await mkdtemp(join(tmpdir(), 'accuracy-')));
  writeFileSync(files.operatorPort, '0\n');
  const ending = new AbortController();
  const api = createApiClient(plane.credentials, ending.signal);
  const simulator = await startSimulator({
    credentials: plane.credentials,
    truthFile: files.truth,
    log,
  });
  const metadata = { name: OPERATOR_NAMESPACE };
  await api.ensure({ apiVersion: 'v1', kind: 'Namespace', metadata });
  await ensureGpuNodes(api);
  const nodes = [...NODES.map(({ name }) => name), ...GPU_MODES.map(({ node }) => node)];
  const renewing = renewLeases(api, nodes, ending.signal).catch((error: unknown) => {
    if (!ending.signal.aborted) log(`leases: ${String(error)}`);
  });
  const run: Run = { options, files, operator: await start(plane.kubeconfigPath, files) };
  try {
    return await drive(run, api);
  } finally {
    await run.operator.stop();
    await simulator.stop();
    ending.abort();
    await renewing;
    await api.close();
    if (process.env['KEEP_RUN'] === undefined) {
      await rm(files.directory, { recursive: true, force: true });
    } else log(`kept: ${files.directory}`);
  }
}

interface Run {
  readonly options: AccuracyOptions;
  readonly files: RunFiles;
  operator: RunningOperator;
}

async function drive(run: Run, api: ReturnType<typeof createApiClient>): Promise<AccuracyResult> {
  const { options, files } = run;
  const { plane, durationMs, log } = options;
  const random = seeded(options.seed);
  await closedBeyond(run, 0);
  log('the first window is closed; pods begin');
  const stopping = new AbortController();
  const named = (...names: readonly string[]) =>
    TENANT_CLUSTERS.filter(({ name }) => names.includes(name));
  const [owner] = named('studio');
  if (owner === undefined) throw new Error('accuracy: no tenant cluster to give nodes to');
  // A sequence for each: how long a pod lives must not depend on what nodes do meanwhile.
  const changes = (number: number) => ({ api, random: seeded(options.seed + number), log });
  const flaky = createFlakyNodes(changes(2));
  const workload = startWorkload(
    {
      api,
      clusters: named('web', 'green', 'burst'),
      nodes: ['cpu-1', 'cpu-2'],
      flaky: flaky.current,
      random,
      startsPerSecond: STARTS_PER_SECOND,
      longestMs: Math.min(180_000, durationMs),
      log,
    },
    stopping.signal,
  );
  const labelling = changeLabels(changes(3), stopping.signal);
  const goingDown = flaky.run(workload, stopping.signal);
  const replacing = replaceNodes(changes(4), owner, stopping.signal);
  // Where injecting faults fails, these are given up, and the failure is what is reported.
  for (const task of [workload.ended, labelling, goingDown, replacing]) task.catch(() => undefined);
  const until = Date.now() + durationMs;
  const blinds = await injectFaults(
    {
      plane,
      operatorLog: files.operatorLog,
      operator: () => run.operator,
      restartOperator: async () => {
        keepLog(files.operatorLog);
        run.operator = await start(plane.kubeconfigPath, files);
      },
      // Another sequence: how long a pod lives must not depend on how long a restart takes.
      random: seeded(options.seed + 1),
      log,
    },
    until,
  );
  await delay(Math.max(0, until - Date.now()));
  stopping.abort();
  const lives = await workload.ended;
  const outages = await goingDown;
  const nodeLives = await replacing;
  await labelling;
  log(`${lives.length} pods have ended, ${nodeLives.length} nodes have gone`);
  // What is told late of the last window is settled in the next one.
  await closedBeyond(run, Date.now() + WINDOW_MS);
  const events = await exported(run);
  const closed = await reports(run);
  const { metrics: ofPods, ...pods } = comparePods({ lives, outages, blinds }, events);
  const { metrics: ofNodes, ...nodes } = compareNodes(nodeLives, blinds, events);
  const ofAllTime = compareLasting(closed.map(closedWindow), events);
  return {
    metrics: [...ofPods, ...ofNodes, ...ofAllTime],
    pods,
    nodes,
    explained: await explainSome(run.operator.address, events),
    lateFacts: events.filter(({ properties }) => 'carried_seconds' in (properties ?? {})).length,
    windows: new Set(closed.map(({ window_end: end }) => end)).size,
    overbilled: pods.unseen.overbilled.length + nodes.unseen.overbilled.length,
    uncertainSecondsMax: events.reduce(
      (most, { properties }) => Math.max(most, Number(properties?.['uncertain_seconds'] ?? 0)),
      0,
    ),
    repeated: events.length - new Set(events.map(({ id }) => id)).size,
    unaccountedGpuSeconds: unaccountedIn(closed),
  };
}

/** The largest relative error of any one thing that was billed. */
export function largestError({ metrics }: AccuracyResult): number {
  return Math.max(...metrics.map(({ maximum }) => maximum));
}

/** Nothing was billed twice, invented, lost sight of, or without an explanation. */
export function isSound(result: AccuracyResult): boolean {
  const { repeated, overbilled, explained, unaccountedGpuSeconds } = result;
  const wrong = overbilled + explained.wrong.length;
  return repeated === 0 && wrong === 0 && unaccountedGpuSeconds === 0;
}

function start(kubeconfig: string, files: RunFiles): Promise<RunningOperator> {
  return startOperator({
    files,
    kubeconfig,
    env: {
      REGION: 'local',
      PLATFORM_CLUSTER: 'local',
      ADAPTERS: 'noop',
      COLLECTION_INTERVAL: `${WINDOW_MS / 1000}s`,
      CPU_MEMORY_BASIS: 'requests',
      METER_BY_NAMESPACE: 'true',
      GPU_RESOURCES,
      // A finish that is told later than this is given back to another pod of the tenant, whose bill would then not be its own.
      SETTLING_DELAY: '9s',
    },
    signal: AbortSignal.timeout(180_000),
  });
}

/** Each start begins the log anew; what went before is of use when the run is looked at afterwards. */
function keepLog(operatorLog: string): void {
  appendFileSync(operatorLog.replace(/\.log$/u, '.earlier.log'), readFileSync(operatorLog));
}

interface Report {
  readonly window_start: string;
  readonly window_end: string;
  readonly scopes: readonly string[];
  readonly gpus?: { readonly models: readonly { readonly unaccounted: number }[] };
}

async function reports({ operator }: Run): Promise<readonly Report[]> {
  const response = await fetch(`${operator.address}/api/v1/windows?limit=1000`);
  return ((await response.json()) as { windows: readonly Report[] }).windows;
}

async function closedBeyond(run: Run, moment: number): Promise<void> {
  const deadline = Math.max(Date.now(), moment) + 120_000;
  for (;;) {
    const closed = (await reports(run))
      .filter(({ scopes }) => scopes.includes('pods'))
      .map(({ window_end: end }) => Date.parse(end));
    if (Math.max(0, ...closed) > moment) return;
    if (Date.now() > deadline) throw new Error('accuracy: windows are not closed');
    await delay(500);
  }
}

async function exported({ operator }: Run): Promise<readonly ReceivedEvent[]> {
  const from = new Date(Date.now() - 6 * 3_600_000).toISOString();
  const to = new Date(Date.now() + 60_000).toISOString();
  const response = await fetch(`${operator.address}/api/v1/events?from=${from}&to=${to}`);
  if (!response.ok) throw new Error(`accuracy: export: HTTP ${response.status}`);
  return parseEvents(await response.text());
}

function closedWindow({ window_start, window_end, scopes }: Report): ClosedWindow {
  return { start: Date.parse(window_start), end: Date.parse(window_end), scopes };
}

/** Over all windows and GPU models; reports outlive restarts. */
function unaccountedIn(closed: readonly Report[]): number {
  const models = closed.flatMap(({ gpus }) => gpus?.models ?? []);
  return models.reduce((sum, { unaccounted }) => sum + Math.abs(unaccounted), 0);
}

/** Uniform numbers in [0, 1) that a seed decides: the same seed gives the same run. */
function seeded(seed: number): () => number {
  let state = seed >>> 0;
  return () => {
    state = (state + 0x9e3779b9) >>> 0;
    let mixed = state;
    mixed = Math.imul(mixed ^ (mixed >>> 16), 0x21f0aaad);
    mixed = Math.imul(mixed ^ (mixed >>> 15), 0x735a2d97);
    return ((mixed ^ (mixed >>> 15)) >>> 0) / 2 ** 32;
  };
}
