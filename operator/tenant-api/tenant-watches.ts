import type { TenantCluster } from '../discovery/tenant-cluster.ts';
import type { Connection } from '../kubernetes/connection.ts';
import type { ResumePoint } from '../kubernetes/reflector-options.ts';
import { preferServedVersion } from '../kubernetes/served-version.ts';
import type { Arrival, SourceHandler } from '../kubernetes/source.ts';
import type { LoadBalancerView, VolumeClaimView } from '../observation/held-objects.ts';
import type { NodeView } from '../observation/node.ts';
import type { Observation } from '../observation/observation.ts';
import type { PodView } from '../observation/pod.ts';
import type { ResourceClaimView } from '../observation/resource-claim.ts';
import type { ResourceSliceView } from '../observation/resource-slice.ts';
import type { Clock } from '../telemetry/clock.ts';
import type { LogFields, Logger } from '../telemetry/logger.ts';
import { createKindWatch, type KindWatch, type KindWatchOf } from './kind-watch.ts';
import { HiddenNodes } from './hidden-nodes.ts';
import type { Budget } from './limits.ts';
import type { NodeMachines } from './node-machines.ts';
import type { OwnNodes } from './own-nodes.ts';
import { readView } from './reading/read-apart.ts';

/** Where the watches of a tenant cluster go on from; undefined where nothing is known. */
export interface TenantResume {
  readonly pods: ResumePoint<PodView> | undefined;
  readonly nodes: ResumePoint<NodeView> | undefined;
  readonly resourceClaims: ResumePoint<ResourceClaimView> | undefined;
  readonly resourceSlices: ResumePoint<ResourceSliceView> | undefined;
  readonly volumes: ResumePoint<VolumeClaimView> | undefined;
  readonly loadBalancers: ResumePoint<LoadBalancerView> | undefined;
}

/** The watches of one tenant cluster's API. */
export interface TenantWatches {
  readonly nodes: KindWatchOf<NodeView>;
  readonly pods: KindWatchOf<PodView>;
  /** Nodes that the API shows no more, and whose machines live on. */
  readonly hiddenNodes: HiddenNodes;
  readonly all: readonly KindWatch[];
  /** Nothing of what the API shows is taken in until they are released. */
  hold(now: number): HeldWatches;
  release(): void;
  /**
   * Which are needed: of a tenant cluster without nodes of its own only the nodes, in case it gets
   * some; pods and their claims only where they are billed.
   */
  needed(hasOwnNodes: boolean, cluster: TenantCluster | undefined): readonly KindWatch[];
}

export interface HeldWatches {
  /** False once something had to be taken in all the same. */
  readonly isWhole: boolean;
  /** What has waited is taken in. */
  release(): void;
}

export interface TenantWatchesOptions {
  /** Of the tenant cluster. */
  readonly id: string;
  readonly observation: Observation;
  readonly ownNodes: OwnNodes;
  readonly machines: NodeMachines;
  readonly onNode: SourceHandler<NodeView>;
  readonly resume: Partial<TenantResume>;
  readonly budget: Budget;
  readonly clock: Clock;
  readonly random: () => number;
  readonly logger: Logger;
}

const CORE = { group: '', version: 'v1' } as const;
const RESOURCE = { group: 'resource.k8s.io', version: 'v1' } as const;
const RESOURCE_VERSIONS = [RESOURCE.version, 'v1beta2', 'v1beta1'];

export function createTenantWatches(options: TenantWatchesOptions): TenantWatches {
  const { observation, ownNodes, onNode, resume, budget, clock, random } = options;
  const logger = atDebug(options.logger, { tenantCluster: options.id });
  const common = { budget, clock, random, logger };
  const hiddenNodes = new HiddenNodes({
    timelines: observation.nodes,
    lives: (node) => options.machines.lives(node),
    release: (uid) => options.machines.release(uid),
    known: resume.nodes,
  });
  const nodes = createKindWatch({
    ...common,
    resource: { ...CORE, plural: 'nodes' },
    project: ownNodes.project,
    timelines: hiddenNodes,
    handlers: [onNode],
    adjust: fromWhenItWasSeen,
    resume: resume.nodes,
  });
  const pods = createKindWatch({
    ...common,
    resource: { ...CORE, plural: 'pods' },
    project: readView(observation),
    timelines: observation.pods,
    resume: resume.pods,
  });
  const volumes = createKindWatch({
    ...common,
    resource: { ...CORE, plural: 'persistentvolumeclaims' },
    project: readView(observation),
    timelines: observation.volumes,
    resume: resume.volumes,
  });
  const loadBalancers = createKindWatch({
    ...common,
    resource: { ...CORE, plural: 'services' },
    project: readView(observation),
    timelines: observation.loadBalancers,
    resume: resume.loadBalancers,
  });
  const resourceClaims = createKindWatch({
    ...common,
    resource: { ...RESOURCE, plural: 'resourceclaims' },
    project: readView(observation),
    timelines: observation.resourceClaims,
    resume: resume.resourceClaims,
  });
  const resourceSlices = createKindWatch({
    ...common,
    resource: { ...RESOURCE, plural: 'resourceslices' },
    project: readView(observation),
    timelines: observation.resourceSlices,
    resume: resume.resourceSlices,
  });
  const all: readonly KindWatch[] = [
    nodes,
    pods,
    volumes,
    loadBalancers,
    resourceClaims,
    resourceSlices,
  ];
  const release = (): void => {
    for (const watch of all) watch.release();
  };
  return {
    nodes,
    pods,
    hiddenNodes,
    all,
    hold: (now) => {
      for (const watch of all) watch.hold(now);
      return {
        get isWhole() {
          return all.every(({ held }) => held);
        },
        release,
      };
    },
    release,
    needed: (hasOwnNodes, cluster) => {
      if (!hasOwnNodes) return [nodes];
      const always = [nodes, volumes, loadBalancers, resourceSlices];
      const byUsage = cluster?.metering.privateNodeBilling === 'usage';
      return byUsage ? [...always, pods, resourceClaims] : always;
    },
  };
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
export interface WatchConnection {
  /** The connection that it was made from. */
  readonly of: Connection;
  for(watch: KindWatch): Pick<Connection, 'request' | 'stream'>;
}

/** `counted` is the connection as the watches use it: what it gives was read apart. */
export function watchConnection(
  connection: Connection,
  counted: Pick<Connection, 'request' | 'stream'>,
): WatchConnection {
  const core = withoutAbsence(counted);
  const resource = preferServedVersion({
    connection: counted,
    group: RESOURCE.group,
    versions: RESOURCE_VERSIONS,
  });
  return {
    of: connection,
    for: (watch) => (watch.resource.group === RESOURCE.group ? resource : core),
  };
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
