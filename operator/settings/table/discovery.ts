import { allowedHost } from '../parsers/hosts.ts';
import { duration } from '../parsers/durations.ts';
import { TENANT_SOURCES } from '../../model/tenant-sources.ts';
import { namespaceName, namingKey, subdomain } from '../parsers/kubernetes-names.ts';
import { list } from '../parsers/lists.ts';
import { absolutePath, boolean, choice, text } from '../parsers/scalars.ts';
import type { SettingTable } from './setting.ts';

/** How tenant clusters are discovered. */
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
    meaning: 'Time without tenant clusters after which a tenant is offboarded.',
    parser: duration('0s', '34d'),
    default: '1h',
    fields: ['MeteringPolicy spec.offboardGrace'],
    test: 'operator/discovery/offboarding.test.ts',
  },
  sources: {
    meaning: 'Kinds of tenants to discover.',
    parser: list(choice(...TENANT_SOURCES)),
    default: 'vcluster',
    fields: ['MeteringPolicy spec.discovery.sources'],
    test: 'operator/discovery/namespaces/namespaces.test.ts',
  },
  namespaceTenantKeys: {
    meaning: 'Labels or annotations that name a Namespace’s tenant; the first value wins.',
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
    meaning: 'The platform’s name of this cluster. Instances on other clusters are ignored.',
    parser: text(253),
    fields: ['MeteringPolicy spec.discovery.platformCluster'],
    test: 'operator/discovery/discover.test.ts',
  },
  trustPlatformMetadata: {
    meaning: 'Trust all metadata keys of platform instances, which users of a project can edit.',
    parser: boolean(),
    default: 'false',
    fields: ['MeteringPolicy spec.discovery.trustPlatformMetadata'],
    test: 'operator/discovery/discover.test.ts',
  },
  trustWorkloadMetadata: {
    meaning:
      'Trust all metadata keys of StatefulSets and Deployments, which admins of a namespace can edit.',
    parser: boolean(),
    default: 'false',
    fields: ['MeteringPolicy spec.discovery.trustWorkloadMetadata'],
    test: 'operator/discovery/discover.test.ts',
  },
} as const satisfies SettingTable;

/** How the operator reaches the APIs of tenant clusters with private nodes. */
export const TENANT_API = {
  enabled: {
    variable: 'TENANT_API',
    meaning: 'Meter private nodes through the tenant cluster’s API.',
    parser: boolean(),
    default: 'true',
    fields: ['MeteringPolicy spec.tenantAPI.enabled'],
    test: 'operator/tenant-api/access.test.ts',
  },
  kubeconfigSecret: {
    variable: 'TENANT_KUBECONFIG_SECRET',
    meaning: 'Secret with a read-only kubeconfig in a tenant cluster’s namespace.',
    parser: subdomain('secret name', 'svc-kubeconfig'),
    default: 'svc-kubeconfig',
    fields: ['MeteringPolicy spec.tenantAPI.kubeconfigSecret'],
    test: 'operator/tenant-api/access.test.ts',
  },
  adminFallback: {
    variable: 'TENANT_ADMIN_FALLBACK',
    meaning: 'Accept the admin kubeconfig if that Secret is missing.',
    parser: boolean(),
    default: 'false',
    fields: ['MeteringPolicy spec.tenantAPI.adminFallback'],
    test: 'operator/tenant-api/access.test.ts',
  },
  allowedHosts: {
    meaning: 'Hosts that tenants’ kubeconfigs may name beside the tenant cluster’s Service.',
    parser: list(allowedHost()),
    default: 'none',
    fields: ['MeteringPolicy spec.tenantAPI.allowedHosts'],
    test: 'operator/tenant-api/kubeconfig/dial-plan.test.ts',
  },
  clustersFile: {
    variable: 'TENANT_CLUSTERS_FILE',
    meaning: 'YAML list of external tenant clusters (docs/how-to/private-nodes.md).',
    parser: absolutePath(),
    test: 'operator/discovery/external-file.test.ts',
  },
} as const satisfies SettingTable;
