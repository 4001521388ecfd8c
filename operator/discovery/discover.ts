import type { Settings } from '../settings/settings.ts';
import { compareBytewise } from '../model/bytewise.ts';
import { type AssignedIds, assignIds, placeKey, projectTenant } from './cluster-ids.ts';
import type { ListedCluster } from './external-file.ts';
import { findTenants } from './find-tenants.ts';
import {
  type CustomerIdKeys,
  customerIdsOf,
  type MetadataSource,
  type MetadataValues,
  readMetadata,
  subscriptionIdsOf,
} from './metadata.ts';
import {
  type AppliedOverrides,
  applyOverrides,
  overridden,
  overriddenMetering,
} from './overrides.ts';
import type { NodeMode, TenantCluster } from './tenant-cluster.ts';
import type { Candidate, HostObjects } from './tenant-source.ts';
import type { HostNamespace, Metadata } from './views.ts';

/** The input of one discovery pass, all of one moment. */
export interface DiscoverInput
  extends Omit<HostObjects, 'settings' | 'labelPrefix' | 'externalNames'> {
  readonly settings: Settings;
  readonly customerIdKeys: CustomerIdKeys;
  /** The entries of TENANT_CLUSTERS_FILE. */
  readonly external: readonly ListedCluster[];
  readonly assignedIds: AssignedIds;
  /** The tenant clusters of the previous pass, by id. */
  readonly known: ReadonlyMap<string, TenantCluster>;
}

export interface Discovered {
  /** Sorted by id. */
  readonly clusters: readonly TenantCluster[];
  /** Ids to store before the clusters are published. */
  readonly newIds: AssignedIds;
  /** Bad metadata and ambiguities, one line each. Each affects at most the tenant that it names. */
  readonly problems: readonly string[];
  readonly overrides: readonly OverrideUse[];
  /** Namespaces whose labels claim a syncer, and that belong to nobody. */
  readonly refusedNamespaces: ReadonlySet<string>;
  /** The number of tenant clusters with a platform instance. */
  readonly enriched: number;
}

/** Where one TenantOverride applies, for its status. */
export interface OverrideUse {
  readonly name: string;
  /** Ids of tenant clusters, sorted. */
  readonly applied: readonly string[];
  /** Where another override of equal specificity, being older, wins. */
  readonly conflicts: readonly { readonly cluster: string; readonly overriddenBy: string }[];
}

/**
 * Runs one discovery pass over the watched objects
 * (docs/explanation/discovery.md#how-tenant-clusters-are-found).
 */
export function discover(input: DiscoverInput): Discovered {
  const { settings, customerIdKeys } = input;
  const found = findTenants({
    ...input,
    settings: settings.discovery,
    labelPrefix: settings.identity.labelPrefix,
    externalNames: input.external.map(({ name }) => name),
  });
  const external = input.external.map((listed) => ({ ...listed, namespace: '' }));
  const given = found.candidates.flatMap(({ namespaceTenant }) => namespaceTenant ?? []);
  const places = [...found.candidates, ...external, ...given];
  const { ids, added } = assignIds(places, input.assignedIds);
  const problems = [...found.problems];
  const uses = new Map(settings.overrides.map(({ name }) => [name, newUse(name)]));
  const clusters: TenantCluster[] = [];
  for (const candidate of found.candidates) {
    const id = ids.get(placeKey(candidate)) ?? '';
    const known = input.known.get(id);
    const [home, ...others] = homesOf(candidate, input);
    if (home === undefined) {
      // Its Namespace has not arrived yet. Without its metadata the customer could be wrong.
      if (known !== undefined) clusters.push(known);
      continue;
    }
    const homes = [home, ...others] as const;
    const given = candidate.namespaceTenant && ids.get(placeKey(candidate.namespaceTenant));
    const parts = { candidate, homes, id, known, given };
    clusters.push(describe({ ...parts, settings, customerIdKeys, problems, uses }));
  }
  for (const listed of external) {
    clusters.push(describeExternal(listed, ids.get(placeKey(listed)) ?? '', input));
  }
  return {
    clusters: clusters.toSorted((a, b) => compareBytewise(a.id, b.id)),
    newIds: added,
    problems,
    refusedNamespaces: found.refusedNamespaces,
    overrides: [...uses.values()].map(({ name, applied, conflicts }) => ({
      name,
      applied: applied.toSorted(compareBytewise),
      conflicts,
    })),
    enriched: found.candidates.filter(({ instance }) => instance !== undefined).length,
  };
}

/** The node mode of the metadata. Other kinds than vCluster state it in their resource. */
function statedNodeMode({ source }: Candidate, values: MetadataValues): NodeMode | undefined {
  return source === 'workload' ? values['node-mode'] : undefined;
}

/**
 * The Namespace of its control plane or of its custom resource, else the namespaces that belong to
 * it alone.
 */
function homesOf(
  { namespace, home = namespace, syncedNamespaces = [] }: Candidate,
  input: DiscoverInput,
): readonly HostNamespace[] {
  const names = home === '' ? syncedNamespaces.map(({ name }) => name) : [home];
  return names.flatMap((name) => input.namespace(name) ?? []);
}

function newUse(name: string) {
  const applied: string[] = [];
  const conflicts: OverrideUse['conflicts'][number][] = [];
  return { name, applied, conflicts };
}

interface DescribeInput {
  readonly candidate: Candidate;
  /** The Namespaces with its metadata, in order of precedence. */
  readonly homes: readonly [HostNamespace, ...HostNamespace[]];
  readonly id: string;
  /** Its state in the previous pass. */
  readonly known: TenantCluster | undefined;
  /** Id of the tenant that the key of its Namespace names. */
  readonly given: string | undefined;
  readonly settings: Settings;
  readonly customerIdKeys: CustomerIdKeys;
  readonly problems: string[];
  readonly uses: ReadonlyMap<string, ReturnType<typeof newUse>>;
}

/** Builds a tenant cluster; order: override → metadata keys → platform → settings. */
function describe(input: DescribeInput): TenantCluster {
  const { candidate, id, known, given, settings, customerIdKeys } = input;
  const { source, namespace, home, name, instance, createdAt, syncedNamespaces } = candidate;
  const { kubeconfigSecret, machineCluster, runsOnControlPlane } = candidate;
  const read = readMetadata(settings.identity.labelPrefix, sourcesOf(input), customerIdKeys);
  input.problems.push(...read.problems.map((problem) => `${id}: ${problem}`));
  const { values } = read;

  const { applied, beaten } = overridesOf(input);
  for (const { name: override } of applied) input.uses.get(override)?.applied.push(id);
  for (const { override, by } of beaten) {
    input.uses.get(override.name)?.conflicts.push({ cluster: id, overriddenBy: by.name });
  }

  const project = overridden(applied, 'project') ?? values.project ?? candidate.project;
  return {
    id,
    source,
    namespace,
    name,
    home,
    syncedNamespaces,
    kubeconfigSecret,
    runsOnControlPlane,
    machineCluster,
    namespaceTenant: given,
    workloads: workloadsOf(candidate, known),
    tenant:
      overridden(applied, 'tenant') ??
      values.tenant ??
      tenantOf(given ?? id, given === undefined ? project : values.project, settings),
    displayName:
      overridden(applied, 'displayName') ??
      values['display-name'] ??
      candidate.displayName ??
      defaultDisplayName({ namespace: candidate.home ?? namespace, name }),
    project,
    tenantClass:
      overridden(applied, 'tenantClass') ??
      values['tenant-class'] ??
      settings.identity.defaultTenantClass,
    plan: overridden(applied, 'plan') ?? values.plan,
    planChange: overridden(applied, 'planChange'),
    billing: overridden(applied, 'billing'),
    instance: instance?.name,
    nodeMode: statedNodeMode(candidate, values) ?? candidate.nodeMode,
    ...billingDetails(values, customerIdKeys),
    ...(values.machines === true && { machines: true }),
    excluded: overridden(applied, 'exclude') ?? values.exclude ?? false,
    enforcementExempt: overridden(applied, 'enforcementExempt') ?? false,
    createdAt,
    metering: overriddenMetering(settings.metering, applied),
    overrides: applied.map((override) => override.name),
  };
}

/** The previous pass's workloads if only the platform still shows it: pods end after them. */
function workloadsOf(
  { workloads }: Candidate,
  known: TenantCluster | undefined,
): readonly string[] | undefined {
  return workloads?.length === 0 ? (known?.workloads ?? workloads) : workloads;
}

/**
 * An external tenant cluster, described by the administrator's file alone. TenantOverrides do not
 * match it.
 */
function describeExternal(
  listed: ListedCluster,
  id: string,
  { settings, customerIdKeys }: DiscoverInput,
): TenantCluster {
  const { name, project, metadata } = listed;
  return {
    id,
    source: 'external',
    namespace: '',
    name,
    tenant: listed.tenant ?? tenantOf(id, project, settings),
    displayName: listed.displayName ?? defaultDisplayName({ namespace: '', name }),
    project,
    tenantClass: metadata['tenant-class'] ?? settings.identity.defaultTenantClass,
    plan: metadata.plan,
    ...billingDetails(metadata, customerIdKeys),
    kubeconfigFile: listed.kubeconfig,
    nodeMode: 'private',
    excluded: metadata.exclude ?? false,
    enforcementExempt: false,
    createdAt: listed.since,
    metering: settings.metering,
    overrides: [],
  };
}

/** The display name of a tenant cluster without one. */
export function defaultDisplayName(place: { namespace: string; name: string }): string {
  const { namespace, name } = place;
  return `Tenant cluster ${namespace === '' ? name : `${namespace}-${name}`}`;
}

/**
 * The overrides of a tenant cluster. A selector sees the labels of its Namespace; those of its
 * workloads only if they are trusted. An override that would match only by workload labels is
 * reported as a problem.
 */
function overridesOf(input: DescribeInput): AppliedOverrides {
  const { candidate, homes, id, settings, problems } = input;
  const { namespace, home = namespace, name } = candidate;
  const place = { namespace: home, name };
  const ofObjects = candidate.objects.toReversed().map(({ metadata }) => metadata);
  const ofHomes = homes.toReversed().map(({ metadata }) => metadata);
  const labelsOf = (all: readonly Metadata[]) =>
    Object.fromEntries(all.flatMap(({ labels }) => Object.entries(labels)));
  const allLabels = labelsOf([...ofHomes, ...ofObjects]);
  const trustingAll = applyOverrides({ ...place, labels: allLabels }, settings.overrides);
  if (settings.discovery.trustWorkloadMetadata) return trustingAll;
  const trusted = applyOverrides({ ...place, labels: labelsOf(ofHomes) }, settings.overrides);
  for (const override of trustingAll.applied) {
    if (trusted.applied.includes(override)) continue;
    const where = `TenantOverride ${override.name}: selector matches by labels of a workload`;
    problems.push(`${id}: ${where}: ignored: ${workloadUntrusted(homes[0])}`);
  }
  return trusted;
}

/** Why the key or label of a workload does not count, and how to change that. */
function workloadUntrusted({ name }: HostNamespace): string {
  return `the admins of a namespace can edit its workloads; set it on Namespace ${name}, or set spec.discovery.trustWorkloadMetadata of the MeteringPolicy`;
}

/**
 * The objects with metadata: Namespaces, workloads, then the instance if its users are trusted
 * (docs/explanation/discovery.md#who-is-billed).
 */
function sourcesOf({ candidate, homes, settings }: DescribeInput): MetadataSource[] {
  const { objects, instance } = candidate;
  const { trustPlatformMetadata, trustWorkloadMetadata } = settings.discovery;
  const untrusted = trustWorkloadMetadata ? undefined : workloadUntrusted(homes[0]);
  const sources: MetadataSource[] = [
    ...homes.map(({ name, metadata }) => ({ name: `Namespace ${name}`, metadata })),
    ...objects.map(({ name, metadata }) => ({
      name: `workload ${name}`,
      metadata,
      untrusted,
    })),
  ];
  if (instance !== undefined && trustPlatformMetadata) {
    sources.push({ name: `platform instance ${instance.name}`, metadata: instance.metadata });
  }
  return sources;
}

function billingDetails(values: MetadataValues, customerIdKeys: CustomerIdKeys) {
  return {
    currency: values.currency,
    email: values.email,
    costCenter: values['cost-center'],
    customerIds: customerIdsOf(values, customerIdKeys),
    subscriptionIds: subscriptionIdsOf(values, customerIdKeys),
  };
}

function tenantOf(id: string, project: string | undefined, settings: Settings): string {
  const byProject = settings.identity.tenantSource === 'project' && project !== undefined;
  return byProject ? projectTenant(project) : id;
}
