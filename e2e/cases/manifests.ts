import type { RawObject } from '../../operator/kubernetes/source.ts';
import type { FixtureKind } from '../../operator/kubernetes/testing/fixtures.ts';

/**
 * What a fixture says, made whole: fixtures leave out what metering does not read, and an API server
 * demands. Nothing that a fixture says is changed.
 */
export function manifestOf(kind: FixtureKind, object: RawObject): RawObject {
  const complete = COMPLETE[kind] ?? ((given: RawObject) => given);
  return complete(object);
}

const COMPLETE: Readonly<Record<FixtureKind, (object: RawObject) => RawObject>> = {
  pods: (object) => ({
    ...object,
    spec: podSpec(record(object['spec'])),
    status: podStatus(record(object['status'])),
  }),
  services: (object) => {
    const spec = serviceSpec(record(object['spec']));
    // Only a load balancer may have an address.
    return spec['type'] === 'LoadBalancer' ? { ...object, spec } : { ...object, spec, status: {} };
  },
  statefulsets: workload,
  deployments: workload,
  persistentvolumeclaims: (object) => ({
    ...object,
    spec: { ...record(object['spec']), accessModes: ['ReadWriteOnce'] },
  }),
  resourceclaims: claim,
  virtualclusterinstances: (object) => ({
    ...object,
    apiVersion: 'management.loft.sh/v1',
    kind: 'VirtualClusterInstance',
  }),
};

/** With an image, and with the equal limits that extended resources need. */
function podSpec(spec: RawObject): RawObject {
  const { initContainers, containers, ...rest } = spec;
  const completed = (list: unknown): readonly RawObject[] =>
    records(list).map((container, index) => {
      const resources = record(container['resources']);
      const requests = Object.entries(record(resources['requests']));
      const extended = requests.filter(([resource]) => resource.includes('/'));
      const limits = { ...record(resources['limits']), ...Object.fromEntries(extended) };
      return { name: `c${index}`, image: 'i', ...container, resources: { ...resources, limits } };
    });
  return {
    automountServiceAccountToken: false,
    terminationGracePeriodSeconds: 0,
    ...runtimeOf(spec),
    ...rest,
    containers: completed(containers),
    ...(initContainers === undefined
      ? {}
      : { initContainers: separate(completed(initContainers)) }),
  };
}

/** Overhead is taken only from a runtime class that says the same. */
function runtimeOf({ overhead }: RawObject): RawObject {
  if (overhead === undefined) return {};
  const amounts = Object.values(record(overhead)).join('-').toLowerCase();
  return { runtimeClassName: `runtime-${amounts}` };
}

/** The runtime class that a pod needs to be there first; undefined when it needs none. */
export function runtimeClassOf(pod: RawObject): RawObject | undefined {
  const { runtimeClassName: name, overhead } = record(pod['spec']);
  if (overhead === undefined) return undefined;
  return { metadata: { name }, handler: name, overhead: { podFixed: overhead } };
}

/** With what a container's status must say besides. */
function podStatus(status: RawObject): RawObject {
  const lists = ['initContainerStatuses', 'containerStatuses'] as const;
  const whole = lists.flatMap((list) => {
    if (status[list] === undefined) return [];
    const completed = records(status[list]).map((entry) => ({
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
function separate(containers: readonly RawObject[]): readonly RawObject[] {
  return containers.map((container, index) => ({ ...container, name: `init-${index}` }));
}

function terminatedOf(entry: RawObject): RawObject {
  const state = record(entry['state']);
  if (!('terminated' in state)) return {};
  return { state: { terminated: { exitCode: 0, ...record(state['terminated']) } } };
}

function workload(object: RawObject): RawObject {
  const matchLabels = { app: 'cases' };
  const template = { metadata: { labels: matchLabels }, spec: podSpec({ containers: [{}] }) };
  const spec = { selector: { matchLabels }, template, ...record(object['spec']) };
  return { ...object, apiVersion: 'apps/v1', spec };
}

function serviceSpec(spec: RawObject): RawObject {
  const ports = records(spec['ports'] ?? [{ port: 80 }]).map((port, index) => ({
    name: `p${index}`,
    ...port,
  }));
  const external = spec['type'] === 'ExternalName' ? { externalName: 'example.com' } : {};
  return { ...spec, ports, ...external };
}

/** With the requests that its results answer, where the fixture does not say how it asked. */
function claim(object: RawObject): RawObject {
  const { devices } = record(record(object['status'])['allocation']);
  const results = records(record(devices)['results']);
  const names = new Set(results.map(({ request }) => String(request)));
  const requests = [...names].map((name) => {
    const answers = results.filter(({ request }) => request === name);
    const adminAccess = answers.some((answer) => answer['adminAccess'] === true);
    const exactly = { deviceClassName: 'gpu', count: answers.length };
    const [whole = name, part] = name.split('/');
    if (part !== undefined) {
      const others = { name: 'other', deviceClassName: 'gpu', count: 1 };
      return { name: whole, firstAvailable: [others, { name: part, ...exactly }] };
    }
    return { name, exactly: adminAccess ? { ...exactly, adminAccess } : exactly };
  });
  const requested =
    requests.length === 0 ? [{ name: 'gpu', exactly: { deviceClassName: 'gpu' } }] : requests;
  return { ...object, spec: { devices: { requests: requested }, ...record(object['spec']) } };
}

function records(value: unknown): readonly RawObject[] {
  return Array.isArray(value) ? value.map(record) : [];
}

export function record(value: unknown): RawObject {
  return typeof value === 'object' && value !== null ? { ...value } : {};
}
