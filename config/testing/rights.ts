import { readFile } from 'node:fs/promises';
import type { TestCluster } from '../../e2e/control-plane/test-cluster.ts';

/** One thing that a service account may do: one verb on one resource. */
export interface Right {
  readonly verb: string;
  readonly group: string;
  /** With its subresource: `meteringpolicies/status`. */
  readonly resource: string;
  /** The only object it holds for; absent means all. */
  readonly name?: string;
  /** The only namespace it holds in; absent means all. */
  readonly namespace?: string;
}

/** One request that a service account made, as the API server audited it. */
export interface AuditedRequest {
  readonly verb: string;
  readonly group: string;
  readonly resource: string;
  readonly name: string;
  readonly namespace: string;
  /** HTTP status code of the answer. */
  readonly code: number;
}

interface Rule {
  readonly apiGroups?: readonly string[];
  readonly resources?: readonly string[];
  readonly resourceNames?: readonly string[];
  readonly verbs: readonly string[];
}

interface Binding {
  readonly metadata: { readonly namespace?: string };
  readonly roleRef: { readonly kind: string; readonly name: string };
  readonly subjects?: readonly {
    readonly kind: string;
    readonly name: string;
    readonly namespace?: string;
  }[];
}

interface AuditLine {
  readonly verb: string;
  readonly user: { readonly username: string };
  readonly objectRef?: {
    readonly resource?: string;
    readonly subresource?: string;
    readonly apiGroup?: string;
    readonly namespace?: string;
    readonly name?: string;
  };
  readonly responseStatus?: { readonly code?: number };
}

const RBAC = '/apis/rbac.authorization.k8s.io/v1';

/** The user name that the API server knows a service account by. */
export function serviceAccountUser(namespace: string, name: string): string {
  return `system:serviceaccount:${namespace}:${name}`;
}

/** A kubeconfig of a service account, with the groups that every service account has. */
export function serviceAccountKubeconfig(
  cluster: TestCluster,
  namespace: string,
  name: string,
): Promise<string> {
  const groups = ['system:serviceaccounts', `system:serviceaccounts:${namespace}`];
  return cluster.addUser(serviceAccountUser(namespace, name), groups);
}

/** Everything that bindings give a service account, one right for each verb and resource. */
export async function rightsOf(
  cluster: TestCluster,
  namespace: string,
  name: string,
): Promise<readonly Right[]> {
  const bindings = [
    ...(await list<Binding>(cluster, `${RBAC}/clusterrolebindings`)),
    ...(await list<Binding>(cluster, `${RBAC}/rolebindings`)),
  ];
  const own = bindings.filter(({ subjects = [] }) =>
    subjects.some(
      (subject) =>
        subject.kind === 'ServiceAccount' &&
        subject.name === name &&
        subject.namespace === namespace,
    ),
  );
  const rights = await Promise.all(own.map((binding) => rightsOfBinding(cluster, binding)));
  return rights.flat();
}

/** What a user asked for since the API server started, from its audit log. */
export async function auditedRequests(
  cluster: TestCluster,
  user: string,
): Promise<readonly AuditedRequest[]> {
  const text = await readFile(cluster.auditLogPath, 'utf8').catch(() => '');
  // The last line may be half written.
  const lines = text.slice(0, text.lastIndexOf('\n') + 1).split('\n');
  return lines.filter((line) => line !== '').flatMap((line) => requestOf(line, user));
}

/** The rights that no successful request made use of, in words. */
export function idleRights(
  rights: readonly Right[],
  requests: readonly AuditedRequest[],
): readonly string[] {
  const succeeded = requests.filter(({ code }) => code < 400 || code === 404 || code === 409);
  return rights
    .filter((right) => !succeeded.some((each) => covers(right, each)))
    .map(describeRight);
}

/** The requests that lacked a right, each once, in words. */
export function deniedRequests(requests: readonly AuditedRequest[]): readonly string[] {
  const denied = requests.filter(({ code }) => code === 403);
  return [...new Set(denied.map(describeRight))].toSorted();
}

async function rightsOfBinding(cluster: TestCluster, binding: Binding): Promise<readonly Right[]> {
  const { kind, name } = binding.roleRef;
  const { namespace } = binding.metadata;
  const path =
    kind === 'ClusterRole'
      ? `${RBAC}/clusterroles/${name}`
      : `${RBAC}/namespaces/${namespace}/roles/${name}`;
  const role = (await cluster.call('GET', path)) as { rules?: readonly Rule[] };
  return (role.rules ?? []).flatMap((rule) => rightsOfRule(rule, namespace));
}

function rightsOfRule(rule: Rule, namespace: string | undefined): readonly Right[] {
  const names = rule.resourceNames ?? [undefined];
  return (rule.apiGroups ?? []).flatMap((group) =>
    (rule.resources ?? []).flatMap((resource) =>
      rule.verbs.flatMap((verb) =>
        names.map((name) => ({
          verb,
          group,
          resource,
          name,
          namespace,
        })),
      ),
    ),
  );
}

function requestOf(line: string, user: string): readonly AuditedRequest[] {
  const { verb, user: asker, objectRef, responseStatus } = JSON.parse(line) as AuditLine;
  if (asker.username !== user || objectRef?.resource === undefined) return [];
  const { resource, subresource, apiGroup = '', namespace = '', name = '' } = objectRef;
  return [
    {
      verb,
      group: apiGroup,
      resource: subresource === undefined ? resource : `${resource}/${subresource}`,
      name,
      namespace,
      code: responseStatus?.code ?? 0,
    },
  ];
}

function covers(right: Right, request: AuditedRequest): boolean {
  return (
    right.verb === request.verb &&
    right.group === request.group &&
    right.resource === request.resource &&
    (right.name === undefined || right.name === request.name) &&
    (right.namespace === undefined || right.namespace === request.namespace)
  );
}

/** `get leases.coordination.k8s.io/meterfeed in meterfeed-system` */
function describeRight({ verb, group, resource, name, namespace }: Right): string {
  const qualified = group === '' ? resource : `${resource}.${group}`;
  const object = name ? `${qualified}/${name}` : qualified;
  return namespace ? `${verb} ${object} in ${namespace}` : `${verb} ${object}`;
}

async function list<T>(cluster: TestCluster, path: string): Promise<readonly T[]> {
  const { items } = (await cluster.call('GET', path)) as { items?: readonly T[] };
  return items ?? [];
}
