import { Registry } from 'prom-client';
import { settingsFrom } from '../../../settings/testing/settings.ts';
import type { Settings } from '../../../settings/settings.ts';
import type { TenantCluster } from '../../../discovery/tenant-cluster.ts';
import { hostNamespace } from '../../../discovery/views.ts';
import type {
  Arrival,
  Bracket,
  Projected,
  Projection,
  RawObject,
  SourceHandler,
} from '../../../kubernetes/source.ts';
import { QueuedArrivals } from '../../../kubernetes/live-view.ts';
import type { Explanations } from '../../explanations/explanations.ts';
import { seeFixture } from '../../../kubernetes/testing/fixtures.ts';
import { createManualClock, type ManualClock } from '../../../kubernetes/testing/manual-clock.ts';
import type { Ledger } from '../../../ledger/ledger.ts';
import { pod } from '../../meters/testing/objects.ts';
import { cpu, START } from '../../meters/testing/world.ts';
import {
  projectLoadBalancer,
  projectVolumeClaim,
  projectWorkload,
} from '../../timelines/retained-objects.ts';
import { namespaceHandler } from '../../timelines/host-namespace.ts';
import { projectNode } from '../../timelines/node.ts';
import { createObservation, type Observation } from '../../timelines/observation.ts';
import { forGpuPods, projectPod } from '../../timelines/pod.ts';
import { projectResourceClaim } from '../../timelines/resource-claim.ts';
import { projectResourceSlice } from '../../timelines/resource-slice.ts';
import type { Logger } from '../../../telemetry/logger.ts';
import type { Tracer } from '../../../telemetry/tracer.ts';
import type { UsageEvent } from '../../../model/event.ts';
import { type CollectorMetrics, createCollectorMetrics } from '../collector-metrics.ts';
import type { AppendEnd } from '../appender.ts';
import { Collector, type CollectorOptions } from '../collector.ts';
import { restoreJournal, type Resume } from '../journal.ts';
import type { PodMetricsReader, PodReading } from '../pod-metrics.ts';
import type { WatchedSource } from '../scope.ts';
import { restoreTenantApis } from '../tenant-journal.ts';
import type { TenantObjects, TenantObjectsList } from '../tenant-scopes.ts';
import { NO_TENANT_OBJECTS } from './no-tenant-objects.ts';

/** A watch that a test drives by hand. */
export interface HandSource<T extends Projected = Projected> extends WatchedSource<T> {
  /** A version of an object arrives. */
  apply(object: RawObject): void;
  /** A DELETED event with the final version arrives. */
  remove(object: RawObject): void;
  fail(reason: string): void;
  /** A new list arrives with exactly these objects. */
  recover(objects: readonly RawObject[]): void;
  /** Like `fail`, for one namespace with WATCH_NAMESPACES. */
  failIn(namespace: string, reason: string): void;
  recoverIn(namespace: string, objects: readonly RawObject[]): void;
}

export interface Process {
  readonly observation: Observation;
  readonly collector: Collector;
  readonly metrics: CollectorMetrics;
  readonly pods: HandSource;
  readonly nodes: HandSource;
  readonly volumes: HandSource;
  readonly services: HandSource;
  readonly workloads: HandSource;
  /** Resource claims and slices. */
  readonly claims: HandSource;
  readonly slices: HandSource;
  readonly namespaces: HandSource;
  readonly logs: string[];
  /** The answer of the metrics API; an Error is an outage. */
  metricsApi: readonly PodReading[] | Error;
  discover(clusters: readonly TenantCluster[]): void;
  /** Ends the process at once like kill -9: the ledger receives nothing more from it. */
  kill(): Promise<AppendEnd>;
  /** Ends the process like SIGTERM. */
  stop(): Promise<AppendEnd>;
  readonly ended: Promise<AppendEnd>;
}

export interface CollectorHarnessOptions {
  readonly ledger: CollectorOptions['ledger'];
  readonly clock?: ManualClock;
  readonly settings?: { current: Settings };
  /** The API server's objects when the process starts. */
  readonly objects?: Partial<
    Record<
      'pods' | 'nodes' | 'volumes' | 'services' | 'workloads' | 'claims' | 'slices' | 'namespaces',
      readonly RawObject[]
    >
  >;
  /** A plural, or `all`, whose watch is always refused: its first list never arrives. */
  readonly forbidden?: string;
  /** WATCH_NAMESPACES: each namespace has its own watch. */
  readonly watchNamespaces?: readonly string[];
  /** A namespace whose pods can never be listed. */
  readonly forbiddenNamespace?: string;
  /** Tenant clusters with private nodes. */
  readonly tenants?: TenantObjectsList;
  /** Creates tenant clusters with private nodes from the journal, once there is an observation. */
  readonly restoreTenants?: (observation: Observation) => readonly TenantObjects[];
  readonly explanations?: Pick<Explanations, 'recordsFor'>;
  /** Instead of {@link Process.metricsApi}. */
  readonly podMetrics?: PodMetricsReader;
  readonly tracer?: Tracer;
}

/** Settings from an environment. */
export function settingsOf(environment: Readonly<Record<string, string>>): Settings {
  return settingsFrom({ CPU_MEMORY_BASIS: 'requests', ...environment });
}

export function clockAt(seconds: number): ManualClock {
  return createManualClock(START + seconds * 1000);
}

/** A collector with all its dependencies, on a clock that the test moves. */
export async function startProcess(
  options: CollectorHarnessOptions & { readonly clock: ManualClock },
): Promise<Process> {
  const { clock } = options;
  const { ledger, sever } = severable(options.ledger);
  const settings = options.settings ?? { current: settingsOf({}) };
  const logs: string[] = [];
  const logger = recordingLogger(logs);
  const metrics = createCollectorMetrics(new Registry());
  const observation = createObservation({
    nodeSettings: () => settings.current.metering,
    billedUntil: (present) => {
      const { watchDeletions, windowMs } = settings.current.metering;
      return watchDeletions ? present : Math.floor(present / windowMs) * windowMs;
    },
    countClamped: () => metrics.clampedTimes.inc(),
  });
  const restored = await restoreJournal(ledger, observation, { logger, clock });
  const { resume } = restored;
  const known = options.restoreTenants?.(observation) ?? [];
  const restoredTenants = await restoreTenantApis(
    ledger,
    (id) => known.find((tenant) => tenant.id === id)?.observation ?? observation,
    { logger, clock },
  );
  const arrivals = new QueuedArrivals(logger);
  const listed = { list: () => known, release: () => undefined };
  const tenants =
    options.restoreTenants === undefined ? (options.tenants ?? NO_TENANT_OBJECTS) : listed;
  const make = <T extends Projected>(
    plural: string,
    project: Projection<T>,
    handlers: readonly SourceHandler<T>[],
    from: Resume<T> | undefined,
    objects: readonly RawObject[] = [],
  ) => {
    const forbidden = options.forbidden === plural || options.forbidden === 'all';
    const isDivided = !['nodes', 'resourceslices', 'namespaces'].includes(plural);
    return createHandSource({
      plural,
      project,
      handlers,
      arrivals,
      from,
      objects,
      clock,
      forbidden,
      namespaces: isDivided ? (options.watchNamespaces ?? []) : [],
      forbiddenNamespace: plural === 'pods' ? options.forbiddenNamespace : undefined,
    });
  };
  const { objects = {} } = options;
  const pods = make(
    'pods',
    projectPod,
    [observation.pods, forGpuPods(observation.gpuPods)],
    resume.pods,
    objects.pods,
  );
  const nodes = make(
    'nodes',
    projectNode,
    [observation.nodes, observation.gpuNodes],
    resume.nodes,
    objects.nodes,
  );
  const claims = make(
    'resourceclaims',
    projectResourceClaim,
    [observation.resourceClaims],
    resume.resourceClaims,
    objects.claims,
  );
  const slices = make(
    'resourceslices',
    projectResourceSlice,
    [observation.resourceSlices],
    resume.resourceSlices,
    objects.slices,
  );
  const volumes = make(
    'persistentvolumeclaims',
    projectVolumeClaim,
    [observation.volumes],
    resume.volumes,
    objects.volumes,
  );
  const services = make(
    'services',
    projectLoadBalancer,
    [observation.loadBalancers],
    resume.loadBalancers,
    objects.services,
  );
  const workloads = make(
    'statefulsets',
    projectWorkload,
    [observation.workloads],
    undefined,
    objects.workloads,
  );
  const namespaces = make(
    'namespaces',
    hostNamespace('meterfeed.io'),
    [namespaceHandler(observation.namespaces)],
    resume.namespaces,
    objects.namespaces,
  );
  const process = { metricsApi: [] as readonly PodReading[] | Error };
  const podMetrics: PodMetricsReader = {
    read: async (onReading) => {
      const { metricsApi } = process;
      if (metricsApi instanceof Error) return { kind: 'failed', reason: metricsApi.message };
      for (const reading of metricsApi) onReading(reading);
      return { kind: 'read' };
    },
  };
  const collector = new Collector({
    observation,
    restored,
    sources: {
      pods,
      nodes,
      volumes,
      loadBalancers: services,
      workloads: [workloads],
      resourceClaims: claims,
      resourceSlices: slices,
      namespaces,
    },
    arrivals,
    ledger,
    settings: () => settings.current,
    podMetrics: options.podMetrics ?? podMetrics,
    clock,
    random: () => 0.5,
    logger,
    metrics,
    explanations: options.explanations ?? { recordsFor: async () => [] },
    restoredTenants,
    tenants,
    tracer: options.tracer,
  });
  const stop = new AbortController();
  const ended = collector.run(stop.signal);
  await settled();
  return Object.assign(process, {
    observation,
    collector,
    metrics,
    pods,
    nodes,
    volumes,
    services,
    workloads,
    claims,
    slices,
    namespaces,
    logs,
    ended,
    discover: (clusters: readonly TenantCluster[]) => {
      const at = clock.now();
      arrivals.take(() => observation.tenantClusters.observe(clusters, at));
    },
    kill: async () => {
      sever();
      stop.abort();
      return ended;
    },
    stop: async () => {
      stop.abort();
      return ended;
    },
  });
}

function severable(ledger: CollectorOptions['ledger']): {
  readonly ledger: CollectorOptions['ledger'];
  readonly sever: () => void;
} {
  let severed = false;
  const gone = { kind: 'failed', cause: 'retryable', message: 'killed' } as const;
  return {
    sever: () => {
      severed = true;
    },
    ledger: {
      ...ledger,
      append: async (batch) => (severed ? gone : ledger.append(batch)),
      writeRecords: async (changes) => (severed ? gone : ledger.writeRecords(changes)),
    },
  };
}

/** Lets pending promises continue. */
export async function settled(): Promise<void> {
  for (let iteration = 0; iteration < 5; iteration += 1) await new Promise(setImmediate);
}

/** Moves the clock forward second by second, so that sleeping loops run. */
export async function pass(clock: ManualClock, seconds: number): Promise<void> {
  for (let second = 0; second < seconds; second += 1) await clock.advance(1000);
  await settled();
}

/** Everything in a ledger, in order. */
export async function eventsOf(ledger: Ledger): Promise<UsageEvent[]> {
  const page = await ledger.read(0, 1_000_000);
  if (page.kind === 'failed') throw new Error(page.message);
  return page.events.map(({ event }) => event);
}

interface HandSourceOptions<T extends Projected> {
  readonly plural: string;
  readonly project: Projection<T>;
  readonly handlers: readonly SourceHandler<T>[];
  readonly arrivals: QueuedArrivals;
  readonly forbidden: boolean;
  readonly namespaces: readonly string[];
  readonly forbiddenNamespace: string | undefined;
  readonly from: Resume<T> | undefined;
  readonly objects: readonly RawObject[];
  readonly clock: ManualClock;
}

function createHandSource<T extends Projected>(options: HandSourceOptions<T>): HandSource<T> {
  const { handlers, arrivals, project, clock, from, forbidden, forbiddenNamespace } = options;
  const view = new Map<string, T>();
  let failure: string | undefined;
  let seenAt = clock.now();
  let returnedAt = seenAt;
  const unseen: Bracket[] = [];
  const unseenByNamespace = new Map<string, Bracket[]>();
  const unseenIn = (namespace: string): Bracket[] => {
    const known = unseenByNamespace.get(namespace) ?? [];
    unseenByNamespace.set(namespace, known);
    return known;
  };
  const key = ({ namespace, name }: Projected): string => `${namespace}/${name}`;
  const projected = (object: RawObject): T => {
    const value = project(seeFixture(options.plural, object));
    if (value === undefined) throw new Error('fixture without uid or name');
    return value;
  };
  const take = (next: T, late: boolean, knownUntil: number): void => {
    const previous = view.get(key(next));
    view.set(key(next), next);
    const arrival = { at: clock.now(), knownUntil, late };
    for (const handler of handlers) arrivals.take(() => handler.upserted(next, previous, arrival));
  };
  const drop = (last: T, arrival: Arrival): void => {
    for (const handler of handlers) arrivals.take(() => handler.deleted(last, arrival));
  };
  const relist = (objects: readonly RawObject[], knownUntil: number): void => {
    const listed = objects.map(projected);
    const uids = new Set(listed.map(({ uid }) => uid));
    for (const object of [...view.values()].filter(({ uid }) => !uids.has(uid))) {
      view.delete(key(object));
      drop(object, { at: clock.now(), knownUntil, late: true });
    }
    for (const object of listed) take(object, true, knownUntil);
    seenAt = clock.now();
    unseen.push({ from: knownUntil, until: seenAt });
  };
  for (const object of from?.objects ?? []) view.set(key(object), object);
  const failures = new Map<string, { readonly reason: string; readonly seenAt: number }>();
  const lists = new Map<string, PromiseWithResolvers<void>>();
  if (forbidden) failure = 'HTTP 403 Forbidden';
  else if (forbiddenNamespace === undefined) relist(options.objects, from?.knownAt ?? 0);
  else {
    lists.set(forbiddenNamespace, Promise.withResolvers());
    const seen = from === undefined ? 0 : seenAt;
    failures.set(forbiddenNamespace, { reason: 'HTTP 403 Forbidden', seenAt: seen });
    const stored = [...view.values()].filter(({ namespace }) => namespace === forbiddenNamespace);
    for (const object of stored) view.delete(key(object));
    relist(
      options.objects.filter((object) => projected(object).namespace !== forbiddenNamespace),
      from?.knownAt ?? 0,
    );
    for (const object of stored) view.set(key(object), object);
  }
  const members = options.namespaces.map(
    (namespace): WatchedSource<T> => ({
      resource: { plural: options.plural, namespace },
      ready: () => lists.get(namespace)?.promise ?? Promise.resolve(),
      resourceVersion: () => '1',
      find: (where, name) => (where === namespace ? view.get(`${where}/${name}`) : undefined),
      health: () => {
        const failed = failures.get(namespace);
        if (failed === undefined) {
          const received = { freshAt: clock.now(), returnedAt, unseen: unseenIn(namespace) };
          return { state: 'synced', since: seenAt, ...received };
        }
        const since = failed.seenAt;
        return { state: 'failing', since, freshAt: since, reason: failed.reason };
      },
    }),
  );
  return {
    resource: { plural: options.plural },
    ...(members.length > 0 && { members }),
    failIn: (namespace, reason) => void failures.set(namespace, { reason, seenAt: clock.now() }),
    recoverIn: (namespace, objects) => {
      const knownUntil = failures.get(namespace)?.seenAt ?? 0;
      failures.delete(namespace);
      returnedAt = clock.now();
      unseenIn(namespace).push({ from: knownUntil, until: returnedAt });
      const others = [...view.values()].filter((object) => object.namespace !== namespace);
      for (const object of others) view.delete(key(object));
      relist(objects, knownUntil);
      for (const object of others) view.set(key(object), object);
      lists.get(namespace)?.resolve();
    },
    ready: (signal) => (forbidden ? rejectedOn(signal) : Promise.resolve()),
    resourceVersion: () => '1',
    find: (namespace, name) => view.get(`${namespace}/${name}`),
    health: () => {
      if (failure === undefined) {
        const freshAt = clock.now();
        return { state: 'synced', since: seenAt, freshAt, returnedAt, unseen };
      }
      return { state: 'failing', since: seenAt, freshAt: seenAt, reason: failure };
    },
    apply: (object) => take(projected(object), false, clock.now()),
    remove: (object) => {
      const last = projected(object);
      view.delete(key(last));
      const at = clock.now();
      drop(last, { at, knownUntil: at, late: false });
    },
    fail: (reason) => {
      seenAt = clock.now();
      failure = reason;
    },
    recover: (objects) => {
      failure = undefined;
      returnedAt = clock.now();
      relist(objects, seenAt);
    },
  };
}

function rejectedOn(signal: AbortSignal): Promise<void> {
  return new Promise((_resolve, reject) => {
    const abort = (): void => reject(new Error('aborted'));
    if (signal.aborted) abort();
    else signal.addEventListener('abort', abort, { once: true });
  });
}

function recordingLogger(logs: string[]): Logger {
  const write = (message: string): void => {
    logs.push(message);
  };
  return { debug: write, info: write, warn: write, error: write };
}

/** The time so many seconds after the first window's start. */
export const at = (second: number): number => START + second * 1000;

/** A pod of one core that has run since before the first window. */
export const life = {
  name: 'p',
  createdAt: at(-100),
  startedAt: at(-90),
  containers: [{ cpu: '1' }],
};
export const running = pod(life);

/**
 * The CPU of events in core-seconds, rounded so that the rounding of single events does not show.
 */
export function coreSeconds(events: readonly UsageEvent[]): number {
  return Math.round(cpu(events) * 3600 * 1e4) / 1e4;
}

/** The ends of the windows that have events of a metric, in ledger order. */
export function windowsOf(
  events: readonly UsageEvent[],
  metric = 'tenant_cpu_core_hours',
): string[] {
  const own = events.filter((event) => event.metric === metric);
  return own.map((event) => event.window_end.slice(11, 19));
}

/** For loggers without a reader. */
export const quiet = (): void => undefined;
