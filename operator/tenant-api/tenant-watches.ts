import { least } from '../model/extremes.ts';
import type { TenantCluster } from '../discovery/tenant-cluster.ts';
import type { Connection } from '../kubernetes/connection.ts';
import type { ResumePoint } from '../kubernetes/reflector-options.ts';
import { preferServedVersion } from '../kubernetes/served-version.ts';
import type { Arrival, SourceHandler } from '../kubernetes/source.ts';
import type { LoadBalancerView, VolumeClaimView } from '../metering/timelines/retained-objects.ts';
import type { NodeView } from '../metering/timelines/node.ts';
import type { Observation } from '../metering/timelines/observation.ts';
import type { PodView } from '../metering/timelines/pod.ts';
import type { ResourceClaimView } from '../metering/timelines/resource-claim.ts';
import type { ResourceSliceView } from '../metering/timelines/resource-slice.ts';
import type { Clock } from '../telemetry/clock.ts';
import type { LogFields, Logger } from '../telemetry/logger.ts';
import { type AnyKindWatch, KindWatch } from './kind-watch.ts';
import { HiddenNodes } from './hidden-nodes.ts';
import type { Budget } from './limits.ts';
import type { NodeMachines } from './inside.ts';
import type { PrivateNodes } from './private-nodes.ts';
import { readView } from './reading/read-in-worker.ts';

/** Where the watches of a tenant cluster go on from; undefined where nothing is known. */
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
  /** Nodes that the API shows no more, and whose machines live on. */
  readonly hiddenNodes: HiddenNodes;
  readonly all: readonly AnyKindWatch[];
  readonly #ofPrivateNodes: readonly AnyKindWatch[];
  readonly #ofUsage: readonly AnyKindWatch[];

  constructor(options: {
    /** Of the tenant cluster. */
    readonly id: string;
    readonly observation: Observation;
    readonly privateNodes: PrivateNodes;
    readonly machines: Pick<NodeMachines, 'lives' | 'release'>;
    readonly onNode: SourceHandler<NodeView>;
    readonly resume: Partial<TenantResume>;
    readonly budget: Budget;
    readonly clock: Clock;
    readonly random: () => number;
    readonly logger: Logger;
  }) {
    const { observation, privateNodes, machines, onNode, resume, budget, clock, random } = options;
    const logger = atDebug(options.logger, { tenantCluster: options.id });
    const common = { budget, clock, random, logger };
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

  /** Nothing of what the API shows is applied until the returned lock is released. */
  retain(now: number) {
    const { all } = this;
    for (const watch of all) watch.retain(now);
    return {
      /** False once something had to be applied all the same. */
      get isComplete(): boolean {
        return all.every(({ held }) => held);
      },
      /** Applies what has waited. */
      release: (): void => this.release(),
    };
  }

  release(): void {
    for (const watch of this.all) watch.release();
  }

  /**
   * Which are needed: of a tenant cluster without nodes of its own only the nodes, in case it gets
   * some; pods and their claims only where they are billed.
   */
  needed(hasPrivateNodes: boolean, cluster: TenantCluster | undefined): readonly AnyKindWatch[] {
    if (!hasPrivateNodes) return [this.nodes];
    const byUsage = cluster?.metering.privateNodeBilling === 'usage';
    return byUsage ? this.all : this.#ofPrivateNodes;
  }
}

/** A node that is older than this when it is first seen carried other labels before. */
const CREATION_DELAY_MS = 60_000;

/** How many states of a tenant cluster's objects are remembered, with their devices, of those that are gone, too. */
export function statesIn(observation: Observation): number {
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

/** Devices of a node or of a slice, as many as make a state large. */
function devicesIn(state: object | undefined): number {
  if (state === undefined) return 0;
  const named = 'devices' in state && state.devices instanceof Map ? state.devices.size : 0;
  return named + ('hami' in state && Array.isArray(state.hami) ? state.hami.length : 0);
}

/** A node that was there before but carried a label of the syncer's counts from when it lost it. */
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
 * What watches of hundreds of tenant clusters have to say is logged at level debug and with the tenant
 * cluster's name; what matters of it is logged once elsewhere.
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

/** How the watches of one tenant cluster talk to its API server. */
export class WatchConnection {
  /** The connection that it was made from. */
  readonly of: Connection;
  readonly #core: Pick<Connection, 'request' | 'stream'>;
  readonly #resource: Pick<Connection, 'request' | 'stream'>;

  /** `counted` is the connection as the watches use it: what it gives was read apart. */
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
 * The same connection, on which a core resource is always served: an API server that knows no nodes
 * is none, and must not be taken to have none.
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

/** An API server that has said nothing for this long since it was first asked counts as failing. */
const SILENCE_MS = 15_000;

/** Why the first of these watches fails, and since when any does; undefined while none does. `startedAt`: when the API was first asked. */
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
