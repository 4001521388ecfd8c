import { vi } from 'vitest';
import type { Connection } from '../../operator/kubernetes/connection.ts';
import { identify, resourcePath } from '../../operator/kubernetes/resource.ts';
import { Reflector } from '../../operator/kubernetes/reflector.ts';
import type {
  ApiResource,
  Projected,
  RawObject,
  Source,
} from '../../operator/kubernetes/source.ts';
import { createCapturingLogger } from '../../operator/kubernetes/testing/capturing-logger.ts';
import type { FixtureKind } from '../../operator/kubernetes/testing/fixtures.ts';
import { systemClock } from '../../operator/telemetry/system-clock.ts';
import type { TestCluster } from '../control-plane/test-cluster.ts';
import { manifestOf, record, runtimeClassOf } from './manifests.ts';

const RUNTIME_CLASSES = '/apis/node.k8s.io/v1/runtimeclasses';
const DRA = 'resource.k8s.io';

/** Versions of the API of claims and slices; the first is the one in which they are written. */
export const DRA_VERSIONS = ['v1', 'v1beta2', 'v1beta1'] as const;
export type DraVersion = (typeof DRA_VERSIONS)[number];

interface Home {
  readonly group: string;
  readonly versions: readonly string[];
  readonly clusterWide?: true;
  /** Its status is written with the rest. */
  readonly whole?: true;
}

const HOMES: Readonly<Record<FixtureKind, Home>> = {
  namespaces: { group: '', versions: ['v1'], clusterWide: true },
  nodes: { group: '', versions: ['v1'], clusterWide: true, whole: true },
  pods: { group: '', versions: ['v1'] },
  persistentvolumeclaims: { group: '', versions: ['v1'] },
  services: { group: '', versions: ['v1'] },
  statefulsets: { group: 'apps', versions: ['v1'] },
  deployments: { group: 'apps', versions: ['v1'] },
  virtualclusterinstances: { group: 'management.loft.sh', versions: ['v1'], whole: true },
  resourceclaims: { group: DRA, versions: DRA_VERSIONS },
  resourceslices: { group: DRA, versions: DRA_VERSIONS, clusterWide: true },
};

/** Every kind of object that the case tables are told of. */
export const KINDS: readonly FixtureKind[] = Object.keys(HOMES);

/** An object as it came, by list or by watch. */
interface Received extends Projected {
  readonly resourceVersion: string;
  readonly object: RawObject;
}

interface Written {
  readonly namespace: string;
  readonly name: string;
  readonly resourceVersion: string;
}

/** What a real API server makes of the fixtures of one kind. */
export interface StoredFixtures {
  /** Writes a fixture, status, taints, deletion and all. */
  write(object: RawObject): Promise<void>;
  /** Resolves when the watches have told of all that was written. */
  arrived(): Promise<void>;
  /** What a list has under a name that the watch told otherwise, if anything; in every version. */
  differences(): Promise<readonly string[]>;
  /** The fixture as the watch brought it; undefined when it was never written. */
  find(object: RawObject, version: DraVersion): RawObject | undefined;
  stop(): Promise<void>;
}

export interface StoredFixturesOptions {
  readonly api: TestCluster;
  readonly connection: Connection;
  readonly kind: FixtureKind;
  /** Where namespaced objects are written. */
  readonly namespace: string;
}

/** Every fixture gets a name of its own, since fixtures share theirs. */
export function storeFixtures(options: StoredFixturesOptions): StoredFixtures {
  const { api, connection, kind, namespace } = options;
  const home = HOMES[kind];
  if (home === undefined) throw new Error(`fixtures: nothing is known of the kind "${kind}"`);
  const place = home.clusterWide === true ? {} : { namespace };
  const resources = home.versions.map((version) => ({
    group: home.group,
    version,
    plural: kind,
    ...place,
  }));
  const [first] = resources;
  if (first === undefined) throw new Error(`fixtures: no version of ${kind}`);
  const path = resourcePath(first);
  const written = new Map<string, Written>();
  let count = 0;
  const stop = new AbortController();
  const watches = resources.map((resource) => follow(connection, resource, stop.signal));
  /** What is written after the first, empty list comes by watch. */
  const watching = Promise.all(watches.map(({ source }) => source.ready(stop.signal)));

  /** Gives the answer to the last request. */
  async function create(name: string, object: RawObject): Promise<RawObject> {
    const { labels, annotations, ownerReferences, deletionTimestamp } = record(object['metadata']);
    const ends = deletionTimestamp !== undefined;
    const finalizers = ends ? { finalizers: ['example.com/cases'] } : {};
    const metadata = { name, labels, annotations, ownerReferences, ...finalizers };
    const { status, ...rest } = manifestOf(kind, object);
    const runtimeClass = kind === 'pods' ? runtimeClassOf(rest) : undefined;
    // It may be there already.
    if (runtimeClass !== undefined) await api.request('POST', RUNTIME_CLASSES, runtimeClass);
    const head = home?.whole === true ? { ...rest, status } : rest;
    const created = await api.call('POST', path, { ...head, metadata });
    const finished = await finish(`${path}/${name}`, created, object, status);
    return ends ? api.call('DELETE', `${path}/${name}`) : finished;
  }

  async function finish(
    at: string,
    created: RawObject,
    object: RawObject,
    status: unknown,
  ): Promise<RawObject> {
    if (kind === 'nodes') {
      // A node is tainted at the door.
      const { taints = [] } = record(object['spec']);
      return api.call('PUT', at, { ...created, spec: { ...record(created['spec']), taints } });
    }
    if (home?.whole === true || status === undefined) return created;
    const complete = { ...record(created['status']), ...record(status) };
    return api.call('PUT', `${at}/status`, { ...created, status: complete });
  }

  return {
    write: async (object) => {
      await watching;
      count += 1;
      const name = `case-${count}`;
      const identity = identify(await create(name, object));
      if (identity === undefined) throw new Error(`${path}/${name}: the answer is no object`);
      written.set(JSON.stringify(object), identity);
    },
    arrived: async () => {
      const late = () =>
        watches.flatMap(({ source }) =>
          [...written.values()].filter(
            ({ namespace, name, resourceVersion }) =>
              source.find(namespace, name)?.resourceVersion !== resourceVersion,
          ),
        );
      await vi.waitUntil(() => late().length === 0, { timeout: 20_000, interval: 20 });
    },
    differences: async () => {
      const found: string[] = [];
      for (const { resource, source } of watches) {
        const lists = new AbortController();
        const list = follow(connection, resource, lists.signal);
        await list.source.ready(lists.signal);
        for (const { namespace, name } of written.values()) {
          const listed = contentOf(list.source.find(namespace, name));
          const watched = contentOf(source.find(namespace, name));
          if (listed !== watched) found.push(`${resource.version}: ${listed} and ${watched}`);
        }
        lists.abort();
        await list.running;
      }
      return found;
    },
    find: (object, version) => {
      const identity = written.get(JSON.stringify(object));
      const watch = watches.find(({ resource }) => resource.version === version) ?? watches[0];
      const received = identity && watch?.source.find(identity.namespace, identity.name);
      return received && asWritten(received.object, object);
    },
    stop: async () => {
      stop.abort();
      await Promise.all(watches.map(({ running }) => running));
    },
  };
}

interface Watch {
  readonly resource: ApiResource;
  readonly source: Source<Received>;
  readonly running: Promise<void>;
}

/** The operator's own list and watch, keeping whole objects. */
function follow(connection: Connection, resource: ApiResource, signal: AbortSignal): Watch {
  const source = new Reflector<Received>({
    connection,
    resource,
    project: (object) => {
      const identity = identify(object);
      return identity && { ...identity, object };
    },
    handlers: [],
    clock: systemClock,
    random: Math.random,
    logger: createCapturingLogger(),
    timings: { absentProbe: 200 },
  });
  return { resource, source, running: source.run(signal) };
}

/** Items of a list do not say what they are. */
function contentOf(received: Received | undefined): string {
  const { apiVersion: _apiVersion, kind: _kind, ...content } = received?.object ?? {};
  return JSON.stringify(content);
}

/**
 * The object under the identity and the times that its fixture has, which an API server gives an
 * object itself. It is being deleted only if the server says so.
 */
function asWritten(stored: RawObject, object: RawObject): RawObject {
  const given = record(object['metadata']);
  const { deletionTimestamp, ...made } = record(stored['metadata']);
  const { uid, name, namespace, creationTimestamp } = given;
  const ends =
    deletionTimestamp === undefined ? {} : { deletionTimestamp: given['deletionTimestamp'] };
  return { ...stored, metadata: { ...made, uid, name, namespace, creationTimestamp, ...ends } };
}
