import { Registry } from 'prom-client';
import { isRecord } from '../../model/is-record.ts';
import type { Clock } from '../../telemetry/clock.ts';
import { systemClock } from '../../telemetry/system-clock.ts';
import { Connection } from '../connection.ts';
import { createReflectorMetrics } from '../metrics.ts';
import { createSource } from '../namespaced-source.ts';
import type { ReflectorOptions, ReflectorTimings } from '../reflector-options.ts';
import { identify } from '../resource.ts';
import type { Projected, RawObject, Source } from '../source.ts';
import { type CapturingLogger, createCapturingLogger } from './capturing-logger.ts';
import { createRecordingHandler, type RecordingHandler } from './recording-handler.ts';
import type { ScriptedApiServer } from './scripted-api-server.ts';

/** The fields of a pod that the tests use. */
export interface TestPod extends Projected {
  readonly phase: string;
}

export function projectTestPod(object: RawObject): TestPod | undefined {
  const identity = identify(object);
  if (identity === undefined) return undefined;
  const { uid, namespace, name } = identity;
  const status = isRecord(object['status']) ? object['status'] : {};
  const phase = typeof status['phase'] === 'string' ? status['phase'] : '';
  return { uid, namespace, name, phase };
}

/** A running reflector of a scripted server, with the changes that it reports. */
export interface ReflectorRig {
  readonly source: Source<TestPod>;
  readonly handler: RecordingHandler<TestPod>;
  readonly logger: CapturingLogger;
  readonly registry: Registry;
  /** `namespace/name phase` of everything in the view, sorted. */
  readonly view: readonly string[];
  metric(name: string): Promise<number>;
  /** Stops it and closes its connections. */
  stop(): Promise<void>;
}

export interface ReflectorRigOptions
  extends Partial<Pick<ReflectorOptions<TestPod>, 'resume' | 'handlers' | 'project'>> {
  readonly clock?: Clock;
  readonly timings?: Partial<ReflectorTimings>;
  readonly namespaces?: readonly string[];
  readonly random?: () => number;
}

const never = new AbortController().signal;

/** Starts a reflector of pods and waits until it is ready, unless the test does. */
export async function startReflector(
  server: Pick<ScriptedApiServer, 'kubeConfig'>,
  options: ReflectorRigOptions & { readonly waitUntilReady?: boolean } = {},
): Promise<ReflectorRig> {
  const connection = new Connection(server.kubeConfig);
  const handler = createRecordingHandler<TestPod>();
  const logger = createCapturingLogger();
  const registry = new Registry();
  const stop = new AbortController();
  const source = createSource<TestPod>({
    connection,
    resource: { group: '', version: 'v1', plural: 'pods' },
    project: options.project ?? projectTestPod,
    handlers: [...(options.handlers ?? []), handler],
    clock: options.clock ?? systemClock,
    random: options.random ?? Math.random,
    logger,
    metrics: createReflectorMetrics(registry),
    namespaces: options.namespaces ?? [],
    timings: {
      backoffBase: 1,
      backoffCap: 5,
      absentProbe: 5,
      resumeSettling: 5,
      ...options.timings,
    },
    resume: options.resume,
  });
  const running = source.run(stop.signal);
  if (options.waitUntilReady ?? true) await source.ready(never);
  return {
    source,
    handler,
    logger,
    registry,
    get view() {
      return [...source.values()]
        .map((pod) => `${pod.namespace}/${pod.name} ${pod.phase}`.trim())
        .toSorted();
    },
    metric: async (name) => {
      const found = await registry.getSingleMetric(`meterfeed_${name}`)?.get();
      return found?.values.reduce((sum, { value }) => sum + value, 0) ?? 0;
    },
    stop: async () => {
      stop.abort();
      await running;
      await connection.close();
    },
  };
}
