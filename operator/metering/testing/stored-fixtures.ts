import type { RawObject } from '../../kubernetes/source.ts';
import type { FixtureKind } from './recorded-objects.ts';

/** Gives an object to a real API server, status and all, and gives back what it made of it. */
export type FixtureStore = (kind: FixtureKind, object: RawObject) => Promise<RawObject>;

interface Api {
  call(method: string, path: string, body?: object): Promise<RawObject>;
  createNamespace(prefix: string): Promise<string>;
}

const CORE = '/api/v1';

/** Every object gets a name of its own, since fixtures share theirs. */
export async function createFixtureStore(api: Api): Promise<FixtureStore> {
  const namespace = await api.createNamespace('cases');
  let count = 0;

  const store = async (path: string, object: RawObject, spec: RawObject): Promise<RawObject> => {
    count += 1;
    const { labels, annotations } = record(object['metadata']);
    const name = `case-${namespace}-${count}`;
    const metadata = { name, labels, annotations };
    await api.call('POST', path, { metadata, spec });
    const created = await api.call('GET', `${path}/${name}`);
    const status = { ...record(created['status']), ...record(object['status']) };
    await api.call('PUT', `${path}/${name}/status`, { ...created, status });
    return api.call('GET', `${path}/${name}`);
  };

  return async (kind, object) => {
    const spec = record(object['spec']);
    const own = `${CORE}/namespaces/${namespace}`;
    if (kind === 'pods') {
      const { handler, overhead, ...rest } = await runtimeOf(api, spec);
      const complete = podSpec(rest);
      const status = podStatus(record(object['status']));
      const runtime = handler === undefined ? {} : { runtimeClassName: handler, overhead };
      return store(`${own}/pods`, { ...object, status }, { ...complete, ...runtime });
    }
    if (kind === 'nodes') return storeNode(object, spec);
    if (kind === 'statefulsets') {
      const matchLabels = { app: 'cases' };
      const template = { metadata: { labels: matchLabels }, spec: podSpec({ containers: [{}] }) };
      const path = `/apis/apps/v1/namespaces/${namespace}/statefulsets`;
      return store(path, object, { ...spec, selector: { matchLabels }, template });
    }
    if (kind === 'services') {
      // Only a load balancer may have an address.
      const status = spec['type'] === 'LoadBalancer' ? object['status'] : {};
      return store(`${own}/services`, { ...object, status }, serviceSpec(spec));
    }
    const volume = { ...spec, accessModes: ['ReadWriteOnce'] };
    return store(`${own}/persistentvolumeclaims`, object, volume);
  };

  /** A node is tainted at the door, so its taints are set when it is there. */
  async function storeNode(object: RawObject, spec: RawObject): Promise<RawObject> {
    count += 1;
    const name = `case-${namespace}-${count}`;
    const path = `${CORE}/nodes/${name}`;
    const { labels } = record(object['metadata']);
    const { status } = object;
    await api.call('POST', `${CORE}/nodes`, { metadata: { name, labels }, status });
    const created = await api.call('GET', path);
    const taints = spec['taints'] ?? [];
    await api.call('PUT', path, { ...created, spec: { ...record(created['spec']), taints } });
    const stored = await api.call('GET', path);
    await api.call('DELETE', path);
    return stored;
  }
}

/** Overhead is taken only from a runtime class that says the same. */
async function runtimeOf(
  api: Api,
  { overhead, ...spec }: RawObject,
): Promise<RawObject & { handler?: string }> {
  if (overhead === undefined) return spec;
  const handler = `runtime-${Object.values(record(overhead)).join('-').toLowerCase()}`;
  const runtimeClass = { metadata: { name: handler }, handler, overhead: { podFixed: overhead } };
  await api
    .call('POST', '/apis/node.k8s.io/v1/runtimeclasses', runtimeClass)
    .catch(() => undefined);
  return { ...spec, handler, overhead };
}

/** With an image, and with the equal limits that extended resources need. */
function podSpec(spec: RawObject): RawObject {
  const completed = (list: unknown): readonly RawObject[] =>
    ((list ?? []) as readonly RawObject[]).map((container, index) => {
      const resources = record(container['resources']);
      const requests = record(resources['requests']);
      const extended = Object.entries(requests).filter(([resource]) => resource.includes('/'));
      const limits = { ...record(resources['limits']), ...Object.fromEntries(extended) };
      return { name: `c${index}`, image: 'i', ...container, resources: { ...resources, limits } };
    });
  const { initContainers, containers, ...rest } = spec;
  return {
    automountServiceAccountToken: false,
    terminationGracePeriodSeconds: 0,
    ...rest,
    containers: completed(containers),
    ...(initContainers === undefined ? {} : { initContainers: apart(completed(initContainers)) }),
  };
}

/** With what a container's status must say besides. */
function podStatus(status: RawObject): RawObject {
  const lists = ['initContainerStatuses', 'containerStatuses'] as const;
  const whole = lists.flatMap((list) => {
    const entries = status[list] as readonly RawObject[] | undefined;
    if (entries === undefined) return [];
    const completed = entries.map((entry) => ({
      image: 'i',
      imageID: 'i',
      ready: false,
      restartCount: 0,
      ...entry,
      ...terminatedOf(entry),
    }));
    return [[list, completed] as const];
  });
  return { ...status, ...Object.fromEntries(whole) };
}

/** Fixtures of init containers share a name. */
function apart(containers: readonly RawObject[]): readonly RawObject[] {
  return containers.map((container, index) => ({ ...container, name: `init-${index}` }));
}

function terminatedOf(entry: RawObject): RawObject {
  const state = record(entry['state']);
  if (!('terminated' in state)) return {};
  return { state: { terminated: { exitCode: 0, ...record(state['terminated']) } } };
}

function serviceSpec(spec: RawObject): RawObject {
  const ports = ((spec['ports'] ?? [{ port: 80 }]) as readonly RawObject[]).map((port, index) => ({
    name: `p${index}`,
    ...port,
  }));
  const external = spec['type'] === 'ExternalName' ? { externalName: 'example.com' } : {};
  return { ...spec, ports, ...external };
}

function record(value: unknown): RawObject {
  return (value ?? {}) as RawObject;
}
