import { allowedHost } from '../parsers/hosts.ts';
import { duration } from '../parsers/durations.ts';
import { TENANT_SOURCES } from '../../model/tenant-sources.ts';
import { namespaceName, namingKey, subdomain } from '../parsers/kubernetes-names.ts';
import { list } from '../parsers/lists.ts';
import { absolutePath, boolean, choice, text } from '../parsers/scalars.ts';
import type { SettingTable } from './setting.ts';

/** Which tenant clusters there are. */
export const DISCOVERY = {
  reconcileIntervalMs: {
    variable: 'RECONCILE_INTERVAL',
    meaning: 'How often tenant clusters are discovered.',
    parser: duration('1s', '1h'),
    default: '30s',
    fields: ['MeteringPolicy spec.reconcileInterval'],
    test: 'operator/discovery/discovery.test.ts',
  },
  offboardGraceMs: {
    variable: 'OFFBOARD_GRACE',
    meaning:
      'How long a tenant may be without tenant clusters before it is offboarded from the destinations.',
    parser: duration('0s', '34d'),
    default: '1h',
    fields: ['MeteringPolicy spec.offboardGrace'],
    test: 'operator/discovery/offboarding.test.ts',
  },
  sources: {
    meaning: 'Which kinds of tenants are looked for.',
    parser: list(choice(...TENANT_SOURCES)),
    default: 'vcluster',
    fields: ['MeteringPolicy spec.discovery.sources'],
    test: 'operator/discovery/namespaces/namespaces.test.ts',
  },
  namespaceTenantKeys: {
    meaning:
      'Labels or annotations that name the tenant of a Namespace, where namespaces are tenants; the first that has a value wins.',
    parser: list(namingKey()),
    default: 'none',
    otherwise: '`<LABEL_PREFIX>/tenant`',
    fields: ['MeteringPolicy spec.discovery.namespaceTenantKeys'],
    test: 'operator/discovery/namespaces/namespaces.test.ts',
  },
  watchNamespaces: {
    variable: 'WATCH_NAMESPACES',
    meaning: 'Namespaces to scan for tenant clusters.',
    parser: list(namespaceName()),
    default: 'none',
    otherwise: 'all',
    fields: ['MeteringPolicy spec.discovery.namespaces'],
    test: 'operator/discovery/discover.test.ts',
  },
  platformCluster: {
    variable: 'PLATFORM_CLUSTER',
    meaning:
      'The platform’s name of this cluster; instances that the platform placed on another one are left alone.',
    parser: text(253),
    fields: ['MeteringPolicy spec.discovery.platformCluster'],
    test: 'operator/discovery/discover.test.ts',
  },
  trustPlatformMetadata: {
    meaning:
      'Believe all metadata keys on platform instances, which the users of a project can edit, and not only project and display name.',
    parser: boolean(),
    default: 'false',
    fields: ['MeteringPolicy spec.discovery.trustPlatformMetadata'],
    test: 'operator/discovery/discover.test.ts',
  },
  trustWorkloadMetadata: {
    meaning:
      'Believe all metadata keys and labels on StatefulSets and Deployments, which the admins of a namespace can edit, and not only the display name.',
    parser: boolean(),
    default: 'false',
    fields: ['MeteringPolicy spec.discovery.trustWorkloadMetadata'],
    test: 'operator/discovery/discover.test.ts',
  },
} as const satisfies SettingTable;

/** How the APIs of tenant clusters with private nodes are reached. */
export const TENANT_API = {
  enabled: {
    variable: 'TENANT_API',
    meaning: 'Meter tenant clusters that have their own nodes through their own API.',
    parser: boolean(),
    default: 'true',
    fields: ['MeteringPolicy spec.tenantAPI.enabled'],
    test: 'operator/tenant-api/access.test.ts',
  },
  kubeconfigSecret: {
    variable: 'TENANT_KUBECONFIG_SECRET',
    meaning: 'Secret in a tenant cluster’s namespace that holds a read-only kubeconfig.',
    parser: subdomain('secret name', 'svc-kubeconfig'),
    default: 'svc-kubeconfig',
    fields: ['MeteringPolicy spec.tenantAPI.kubeconfigSecret'],
    test: 'operator/tenant-api/access.test.ts',
  },
  adminFallback: {
    variable: 'TENANT_ADMIN_FALLBACK',
    meaning: 'Accept the tenant cluster’s admin kubeconfig where that secret is missing.',
    parser: boolean(),
    default: 'false',
    fields: ['MeteringPolicy spec.tenantAPI.adminFallback'],
    test: 'operator/tenant-api/access.test.ts',
  },
  allowedHosts: {
    meaning: 'Where kubeconfigs of tenants may point to beside the tenant cluster’s own Service.',
    parser: list(allowedHost()),
    default: 'none',
    fields: ['MeteringPolicy spec.tenantAPI.allowedHosts'],
    test: 'operator/tenant-api/kubeconfig/dial-plan.test.ts',
  },
  clustersFile: {
    variable: 'TENANT_CLUSTERS_FILE',
    meaning:
      'YAML list of external tenant clusters: name, kubeconfig, tenant, displayName, project, metadata.',
    parser: absolutePath(),
    test: 'operator/discovery/external-file.test.ts',
  },
} as const satisfies SettingTable;
