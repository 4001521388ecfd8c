import { appendFileSync, readFileSync } from 'node:fs';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import type { ControlPlane } from '../control-plane/control-plane.ts';
import type { Kubectl } from '../control-plane/kubectl.ts';
import { applyPolicy, OPERATOR_NAMESPACE } from '../local/custom-resources.ts';
import { type RunningOperator, startOperator } from '../local/operator-process.ts';
import { type RunFiles, runFiles } from '../local/run-directory.ts';
import { type ApiClient, createApiClient } from '../simulator/api-client.ts';
import { startSimulator } from '../simulator/simulator.ts';
import { createBills } from './bills.ts';
import { compareLasting } from './compare-lasting.ts';
import { compareNodes } from './compare-nodes.ts';
import { comparePods, type PodComparison } from './compare-pods.ts';
import { compareUndated, type UndatedFigures } from './compare-undated.ts';
import { type Explained, explainSome } from './explained.ts';
import { injectFaults, stopOnce } from './faults.ts';
import { type Blind, type MetricFigures, WINDOW_MS } from './figures.ts';
import { type LateFact, lateOf, nameLate } from './late-facts.ts';
import { GPU_RESOURCES } from './modes.ts';
import { ensureGpuNodes } from './nodes.ts';
import { seeded } from './seeded.ts';
import type { StopScene } from './stops.ts';
import { nameUncertain, type UncertainChange, uncertaintyOf } from './uncertainty.ts';
import { compareUnseen, type UnseenFigures } from './unseen-gaps.ts';
import { whatTheyHad } from './unseen-owners.ts';
import { startWorld } from './world.ts';

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
  readonly kubectl: Kubectl;
  readonly seed: number;
  /** How long pods are started and faults are injected; waiting for the end comes on top. */
  readonly durationMs: number;
  /** In the place of all other faults the operator is down once, for so long; gaps must say what was unseen. */
  readonly stopMs?: number;
  readonly log: (line: string) => void;
}

export interface AccuracyResult {
  readonly metrics: readonly MetricFigures[];
  /** How many pods and whole nodes could be seen whole. */
  readonly pods: number;
  readonly nodes: number;
  readonly arrivals: PodComparison['arrivals'];
  readonly explained: Explained;
  readonly windows: number;
  /**
   * Events with seconds of closed windows: what was told later than the settling delay is billed right
   * for the tenant, but not pod by pod, so that there must be none for the figures to be of use.
   */
  readonly lateFacts: number;
  /** What the first of these carry. */
  readonly late: readonly LateFact[];
  /** What has changes that the API does not date. */
  readonly undated: readonly UndatedFigures[];
  /**
   * How far off events say that what nobody saw may be, seconds: of all, and of those that were told by watches that
   * went on where they were; and what the worst of these are of.
   */
  readonly uncertain: {
    readonly most: number;
    readonly mostResumed: number;
    readonly worstResumed: readonly UncertainChange[];
  };
  /** Ids that the ledger has more than once. */
  readonly repeated: number;
  /** What gaps say of a single stop. */
  readonly unseen?: UnseenFigures;
  /** GPU time that was installed and is neither billed, idle, down nor the system's, over all windows. */
  readonly unaccountedGpuSeconds: number;
}

/**
 * Drives a simulated cluster on a real API server, kills and restarts what can be, and holds the
 * bills against the times that the API carried: of short-lived pods with GPUs of every mode, of nodes
 * that go down, of whole nodes that come and go, and of what is there all the time.
 */
export async function measureAccuracy(options: AccuracyOptions): Promise<AccuracyResult> {
  const { plane, log } = options;
  const files = runFiles(await mkdtemp(join(tmpdir(), 'accuracy-')));
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
  await applyPolicy(options.kubectl, POLICY);
  const run = await startRun(options, files);
  try {
    return await drive(run, api);
  } finally {
    await run.stop();
    await simulator.stop();
    ending.abort();
    await api.close();
    if (process.env['KEEP_RUN'] === undefined) {
      await rm(files.directory, { recursive: true, force: true });
    } else log(`kept: ${files.directory}`);
  }
}

/** The operator, with what is done to it. */
interface Run {
  readonly options: AccuracyOptions;
  readonly address: () => string;
  /** Until the moment has come. */
  readonly suffer: (stops: StopScene, until: number) => Promise<readonly Blind[]>;
  readonly stop: () => Promise<void>;
}

async function startRun(options: AccuracyOptions, files: RunFiles): Promise<Run> {
  const { plane, log } = options;
  // Another sequence than that of the world: how long a pod lives must not depend on how long a restart takes.
  const random = seeded(options.seed + 1);
  let operator = await start(plane.kubeconfigPath, files);
  const restartOperator = async (): Promise<void> => {
    keepLog(files.operatorLog);
    operator = await start(plane.kubeconfigPath, files);
  };
  const { operatorLog } = files;
  const { stopMs } = options;
  const faults = { plane, operatorLog, operator: () => operator, restartOperator, random, log };
  return {
    options,
    address: () => operator.address,
    suffer: async (stops, until) => {
      const all = { ...faults, stops };
      return stopMs === undefined ? injectFaults(all, until) : stopOnce(all, stopMs, until);
    },
    stop: () => operator.stop(),
  };
}

async function drive(run: Run, api: ApiClient): Promise<AccuracyResult> {
  const { options } = run;
  const { durationMs, log } = options;
  const bills = createBills(run.address);
  await bills.closedBeyond(0);
  log('the first window is closed; pods begin');
  const world = await startWorld({ api, seed: options.seed, durationMs, log });
  const until = Date.now() + durationMs;
  const blinds = await run.suffer(world.stops, until);
  await delay(Math.max(0, until - Date.now()));
  const { undated, outages, nodes: nodeLives, ...truth } = await world.end();
  const uninstalled = whatTheyHad(truth.uninstalled, blinds);
  const lives = [...truth.lives, ...uninstalled.lives];
  log(`${lives.length} pods have ended, ${nodeLives.length} nodes have gone`);
  // What is told late of the last window is settled in the next one.
  await bills.closedBeyond(Date.now() + WINDOW_MS);
  const closed = await bills.windows();
  const last = Math.max(...closed.map(({ end }) => end));
  const events = (await bills.events()).filter(({ window_end: end }) => Date.parse(end) <= last);
  const pods = comparePods({ lives, outages, blinds }, events);
  const nodes = compareNodes(nodeLives, blinds, events);
  const notDated = [...pods.unseen, ...nodes.unseen, ...undated, ...uninstalled.undated];
  const address = run.address();
  const late = lateOf(events);
  const { most, resumed } = uncertaintyOf(events, blinds);
  return {
    metrics: [...pods.metrics, ...nodes.metrics, ...compareLasting(closed, events)],
    undated: compareUndated(notDated, blinds, events),
    pods: pods.pods,
    nodes: nodes.nodes,
    arrivals: pods.arrivals,
    explained: await explainSome(address, events),
    lateFacts: late.length,
    late: await nameLate(late, address),
    windows: new Set(closed.map(({ end }) => end)).size,
    uncertain: {
      most,
      mostResumed: resumed[0]?.seconds ?? 0,
      worstResumed: await nameUncertain(resumed, address, notDated, blinds),
    },
    repeated: events.length - new Set(events.map(({ id }) => id)).size,
    ...(options.stopMs !== undefined && { unseen: compareUnseen(blinds, await bills.unseen()) }),
    unaccountedGpuSeconds: closed.reduce((sum, { unaccounted }) => sum + unaccounted, 0),
  };
}

/** The largest relative error of any one thing that was billed. */
export function largestError({ metrics }: AccuracyResult): number {
  return Math.max(...metrics.map(({ maximum }) => maximum));
}

/** How many things were billed beyond the truth. */
export function overbilledIn({ undated }: AccuracyResult): number {
  return undated.reduce((sum, { overbilled }) => sum + overbilled.length, 0);
}

/** How many were billed less than the truth by more than their events say. */
export function unsaidIn({ undated }: AccuracyResult): number {
  return undated.reduce((sum, { unsaid }) => sum + unsaid.length, 0);
}

/** Nothing was billed twice, invented, lost sight of, without an explanation, or in the place of something else. */
export function isSound(result: AccuracyResult): boolean {
  const { repeated, explained, unaccountedGpuSeconds, lateFacts, unseen } = result;
  // A stop after which the watch of pods could go on shows nothing.
  if (unseen !== undefined && !unseen.kinds.includes('pods')) return false;
  const wrong = overbilledIn(result) + unsaidIn(result) + explained.wrong.length;
  const unsaid = unseen?.missing.length ?? 0;
  return [repeated, wrong, unaccountedGpuSeconds, lateFacts, unsaid].every((count) => count === 0);
}

/** A finish that arrives later is given back to another pod of the tenant, whose bill would then not be its own. */
const POLICY = { settlingDelay: '9s' };

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
    },
    signal: AbortSignal.timeout(180_000),
  });
}

/** Each start begins the log again; what went before is of use when the run is looked at afterwards. */
function keepLog(operatorLog: string): void {
  appendFileSync(operatorLog.replace(/\.log$/u, '.earlier.log'), readFileSync(operatorLog));
}
