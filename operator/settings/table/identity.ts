import { subdomain } from '../parsers/kubernetes-names.ts';
import { boolean, choice, text } from '../parsers/scalars.ts';
import type { SettingTable } from './setting.ts';

/** Names in events, and how usage maps to tenants. */
export const IDENTITY = {
  region: {
    variable: 'REGION',
    meaning:
      'Region of events and part of their ids. It must differ between control plane clusters.',
    parser: text(256),
    default: 'default',
    test: 'operator/metering/windows/window-variables.test.ts',
  },
  clusterName: {
    variable: 'CLUSTER_NAME',
    meaning: 'Name of this control plane cluster and source of CloudEvents.',
    parser: text(256),
    default: 'control-plane',
    test: 'operator/app/billing-variables.test.ts',
  },
  zone: {
    variable: 'ZONE',
    meaning: 'Zone of nodes without a zone label.',
    parser: text(63),
    fields: ['MeteringPolicy spec.zone'],
    test: 'operator/metering/meters/events.test.ts',
  },
  regionFromNode: {
    variable: 'REGION_FROM_NODE',
    meaning: 'Take the region of node events from `topology.kubernetes.io/region`.',
    parser: boolean(),
    default: 'false',
    fields: ['MeteringPolicy spec.regionFromNode'],
    test: 'operator/metering/meters/dedicated-node-hours.test.ts',
  },
  labelPrefix: {
    variable: 'LABEL_PREFIX',
    meaning: 'Prefix of metadata labels and annotations, such as `<prefix>/tenant`.',
    parser: subdomain('label prefix', 'meterfeed.io'),
    default: 'meterfeed.io',
    test: 'operator/discovery/metadata.test.ts',
  },
  defaultTenantClass: {
    variable: 'DEFAULT_TENANT_CLASS',
    meaning: 'Class of tenant clusters without one.',
    parser: text(128),
    fields: ['MeteringPolicy spec.defaultTenantClass'],
    test: 'operator/discovery/discover.test.ts',
  },
  tenantSource: {
    variable: 'TENANT_SOURCE',
    meaning:
      'The tenant where no label or TenantOverride names one: the tenant cluster, or the platform project.',
    parser: choice('cluster', 'project'),
    default: 'cluster',
    fields: ['MeteringPolicy spec.tenantSource'],
    test: 'operator/discovery/discover.test.ts',
  },
} as const satisfies SettingTable;
