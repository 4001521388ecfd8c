import { least } from '../model/extremes.ts';
import type { TenantCluster } from '../discovery/tenant-cluster.ts';
import type { Connection } from '../kubernetes/connection.ts';
import type { ResumePoint } from '../kubernetes/reflector-options.ts';
import { preferServedVersion } from '../kubernetes/served-version.ts';
import type { Arrival, SourceHandler } from '../kubernetes/source.ts';
import type { LoadBalancerView, VolumeClaimView } from '../metering/timelines/retained-objects.ts';
import type { NodeView } from '../metering/timelines/node.ts';
import type { TenantObservation } from '../metering/timelines/observation.ts';
import type { PodView } from '../metering/timelines/pod.ts';
import type { ResourceClaimView } from '../metering/timelines/resource-claim.ts';
import type { ResourceSliceView } from '../metering/timelines/resource-slice.ts';
import type { Clock } from '../telemetry/clock.ts';
import type { LogFields, Logger } from '../telemetry/logger.ts';
import { type AnyKindWatch, KindWatch } from './kind-watch.ts';
import { HiddenNodes } from './hidden-nodes.ts';
import type { ApiLimiter } from './limits.ts';
import type { NodeMachines } from './inside.ts';
import type { PrivateNodes } from './private-nodes.ts';
import { readView } from './reading/read-in-worker.ts';

/** Points from which the watches of a tenant cluster resume; undefined where nothing is known. */
export interface TenantResume {
  readonly pods: ResumePoint<PodView> | undefined;
  readonly nodes: ResumePoint<NodeView> | undefined;
  readonly resourceClaims: ResumePoint<ResourceClaimView> | undefined;
  readonly resourceSlices: ResumePoint<ResourceSliceView> | undefined;
  readonly volumes: ResumePoint<VolumeClaimView> | undefined;
  readonly loadBalancers: ResumePoint<LoadBalancerView> | undefined;
}

const CORE = { group: '', version: 'v1' } as const;
const RESOURCE = { group: 'resource.k8s.io', version: 'v1' } as const;
const RESOURCE_VERSIONS = [RESOURCE.version, 'v1beta2', 'v1beta1'];

/** The watches of one tenant cluster's API. */
export class TenantWatches {
  readonly nodes: KindWatch<NodeView>;
  readonly pods: KindWatch<PodView>;
  /** Nodes that disappeared from the API while their machines live on. */
  readonly hiddenNodes: HiddenNodes;
  readonly all: readonly AnyKindWatch[];
  readonly #ofPrivateNodes: readonly AnyKindWatch[];
  readonly #ofUsage: readonly AnyKindWatch[];

  constructor(options: {
    readonly id: string;
    readonly observation: TenantObservation;
    readonly privateNodes: PrivateNodes;
    readonly machines: Pick<NodeMachines, 'lives' | 'release'>;
    readonly onNode: SourceHandler<NodeView>;
    readonly resume: Partial<TenantResume>;
    readonly limiter: ApiLimiter;
    readonly clock: Clock;
    readonly random: () => number;
    readonly logger: Logger;
  }) {
    const { observation, privateNodes, machines, onNode, resume, limiter, clock, random } = options;
    const logger = atDebug(options.logger, { tenantCluster: options.id });
    const common = { limiter, clock, random, logger };
    this.hiddenNodes = new HiddenNodes({
      timelines: observation.nodes,
      lives: (node) => machines.lives(node),
      release: (uid) => machines.release(uid),
      known: resume.nodes,
    });
    this.nodes = new KindWatch({
      ...common,
      resource: { ...CORE, plural: 'nodes' },
      project: privateNodes.project,
      timelines: this.hiddenNodes,
      handlers: [onNode],
      adjust: fromWhenItWasSeen,
      resume: resume.nodes,
    });
    this.pods = new KindWatch({
      ...common,
      resource: { ...CORE, plural: 'pods' },
      project: readView(observation),
      timelines: observation.pods,
      resume: resume.pods,
    });
    const volumes = new KindWatch({
      ...common,
      resource: { ...CORE, plural: 'persistentvolumeclaims' },
      project: readView(observation),
      timelines: observation.volumes,
      resume: resume.volumes,
    });
    const loadBalancers = new KindWatch({
      ...common,
      resource: { ...CORE, plural: 'services' },
      project: readView(observation),
      timelines: observation.loadBalancers,
      resume: resume.loadBalancers,
    });
    const resourceClaims = new KindWatch({
      ...common,
      resource: { ...RESOURCE, plural: 'resourceclaims' },
      project: readView(observation),
      timelines: observation.resourceClaims,
      resume: resume.resourceClaims,
    });
    const resourceSlices = new KindWatch({
      ...common,
      resource: { ...RESOURCE, plural: 'resourceslices' },
      project: readView(observation),
      timelines: observation.resourceSlices,
      resume: resume.resourceSlices,
    });
    this.#ofPrivateNodes = [this.nodes, volumes, loadBalancers, resourceSlices];
    this.#ofUsage = [this.pods, resourceClaims];
    this.all = [...this.#ofPrivateNodes, ...this.#ofUsage];
  }

  /** Queues everything that the API shows until the returned lock is released. */
  retain(now: number) {
    const { all } = this;
    for (const watch of all) watch.retain(now);
    return {
      /** False once a watch had to apply something. */
      get isComplete(): boolean {
        return all.every(({ isQueueing }) => isQueueing);
      },
      /** Applies everything queued. */
      release: (): void => this.release(),
    };
  }

  release(): void {
    for (const watch of this.all) watch.release();
  }

  /**
   * Returns the needed watches. Without private nodes that is only the watch of nodes, in case some
   * appear. Pods and their claims are needed only where they are billed.
   */
  needed(hasPrivateNodes: boolean, cluster: TenantCluster | undefined): readonly AnyKindWatch[] {
    if (!hasPrivateNodes) return [this.nodes];
    const byUsage = cluster?.metering.privateNodeBilling === 'usage';
    return byUsage ? this.all : this.#ofPrivateNodes;
  }
}

/** A node older than this at its first sighting carried other labels before. */
const CREATION_DELAY_MS = 60_000;

/** Counts stored states of a tenant cluster's objects and devices, with those that are gone. */
export function statesIn(observation: TenantObservation): number {
  const { nodes, pods, volumes, loadBalancers, resourceClaims, resourceSlices } = observation;
  let states = 0;
  for (const timelines of [nodes, pods, volumes, loadBalancers, resourceClaims, resourceSlices]) {
    for (const [, each] of timelines.namespaces()) {
      for (const { spans } of each) {
        states += 1;
        for (const { state } of spans) states += 1 + devicesIn(state);
      }
    }
  }
  return states;
}

/** Counts the devices in a state of a node or of a slice, which make it large. */
function devicesIn(state: object | undefined): number {
  if (state === undefined) return 0;
  const named = 'devices' in state && state.devices instanceof Map ? state.devices.size : 0;
  return named + ('hami' in state && Array.isArray(state.hami) ? state.hami.length : 0);
}

/** A node that lost the syncer's label is billed from that moment, not from its creation. */
function fromWhenItWasSeen(
  next: NodeView,
  previous: NodeView | undefined,
  { late, knownUntil }: Arrival,
): NodeView {
  const isOld = next.createdAt < knownUntil - CREATION_DELAY_MS;
  const appeared = previous === undefined && !late && isOld;
  return appeared ? { ...next, createdAt: knownUntil } : next;
}

/**
 * Returns a logger that logs at level debug, with the tenant cluster's name: there are watches of
 * hundreds of tenant clusters. Other code logs the important failures once.
 */
function atDebug(logger: Logger, fields: LogFields): Logger {
  const debug = (message: string, more?: LogFields): void =>
    logger.debug(message, { ...fields, ...more });
  return {
    debug,
    info: debug,
    warn: debug,
    error: (message, more) => logger.error(message, { ...fields, ...more }),
  };
}

/** Connections that the watches of one tenant cluster use. */
export class WatchConnection {
  /** The original connection. */
  readonly of: Connection;
  readonly #core: Pick<Connection, 'request' | 'stream'>;
  readonly #resource: Pick<Connection, 'request' | 'stream'>;

  /** `counted` is the original connection with counted traffic, parsed in another thread. */
  constructor(of: Connection, counted: Pick<Connection, 'request' | 'stream'>) {
    this.of = of;
    this.#core = withoutAbsence(counted);
    this.#resource = preferServedVersion({
      connection: counted,
      group: RESOURCE.group,
      versions: RESOURCE_VERSIONS,
    });
  }

  for(watch: AnyKindWatch): Pick<Connection, 'request' | 'stream'> {
    return watch.resource.group === RESOURCE.group ? this.#resource : this.#core;
  }
}

/**
 * The same connection, with a 404 for a core resource as a failure. A server without nodes is no
 * Kubernetes API, and must not count as one with no nodes.
 */
export function withoutAbsence(
  connection: Pick<Connection, 'request' | 'stream'>,
): Pick<Connection, 'request' | 'stream'> {
  const served = <T extends { readonly kind: string }>(outcome: T) =>
    outcome.kind === 'status' && 'code' in outcome && outcome.code === 404
      ? ({ kind: 'network', message: 'HTTP 404: the server is no Kubernetes API' } as const)
      : outcome;
  return {
    request: async (path, options) => served(await connection.request(path, options)),
    stream: async (path, options) => served(await connection.stream(path, options)),
  };
}

/** An API server without an answer for this long after the first request counts as failing. */
const SILENCE_MS = 15_000;

/**
 * Returns the failure of the first failing watch and the earliest start of any failure, or
 * undefined. `startedAt`: time of the first request to the API.
 */
export function failureOf(
  watches: readonly Pick<AnyKindWatch, 'resource' | 'health'>[],
  now: number,
  startedAt = Infinity,
): { readonly reason: string; readonly since: number } | undefined {
  const failing = watches.flatMap((watch) => {
    const { plural } = watch.resource;
    const { state, reason, since } = watch.health();
    if (state === 'failing') return [{ reason: `${plural}: ${reason}`, since }];
    const silent = state === 'starting' && now - startedAt > SILENCE_MS;
    return silent ? [{ reason: `${plural}: no answer yet`, since }] : [];
  });
  const [first] = failing;
  return first && { reason: first.reason, since: least(failing.map(({ since }) => since)) };
}
