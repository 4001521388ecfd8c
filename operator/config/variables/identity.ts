import { qualifiedName, subdomain } from '../parsers/kubernetes-names.ts';
import { boolean, choice, text } from '../parsers/scalars.ts';
import type { Variable } from './variable.ts';

/** Names that are stamped on events, and whom usage belongs to. */
export const IDENTITY_VARIABLES = {
  REGION: {
    meaning:
      'Region stamped on events. Part of every event id, so it must differ between control plane clusters; the value `default` warns at start.',
    parser: text(256),
    default: 'default',
    test: 'operator/windows/window-variables.test.ts',
  },
  CLUSTER_NAME: {
    meaning: 'Name of this control plane cluster; the source of CloudEvents.',
    parser: text(256),
    default: 'control-plane',
    test: 'operator/wiring/billing-variables.test.ts',
  },
  ZONE: {
    meaning: 'Zone of nodes that carry no zone label.',
    parser: text(63),
    fields: ['MeteringPolicy spec.zone'],
    test: 'operator/metering/events.test.ts',
  },
  REGION_FROM_NODE: {
    meaning:
      'Take the region of node-related events from the label `topology.kubernetes.io/region`.',
    parser: boolean(),
    default: 'false',
    fields: ['MeteringPolicy spec.regionFromNode'],
    test: 'operator/metering/whole-nodes.test.ts',
  },
  LABEL_PREFIX: {
    meaning:
      'Prefix of the labels and annotations that carry metadata of tenants, such as `<prefix>/tenant`.',
    parser: subdomain('label prefix', 'meterfeed.io'),
    default: 'meterfeed.io',
    test: 'operator/discovery/metadata.test.ts',
  },
  DEFAULT_TENANT_CLASS: {
    meaning: 'Class of tenant clusters that carry none.',
    parser: text(128),
    fields: ['MeteringPolicy spec.defaultTenantClass'],
    test: 'operator/discovery/discover.test.ts',
  },
  TENANT_SOURCE: {
    meaning:
      'Whom usage is billed to unless a label or a TenantOverride says so: each tenant cluster, or each platform project.',
    parser: choice('cluster', 'project'),
    default: 'cluster',
    fields: ['MeteringPolicy spec.tenantSource'],
    test: 'operator/discovery/discover.test.ts',
  },
  SKU_LABEL: {
    meaning: 'Node label that names the SKU of a node and of its GPUs.',
    parser: qualifiedName('label key', 'example.com/sku'),
    fields: ['MeteringPolicy spec.skuLabel'],
    test: 'operator/metering/gpu-hours.test.ts',
  },
  CAPACITY_TYPE_LABEL: {
    meaning: 'Node label that names the capacity type; it beats those of cloud providers.',
    parser: qualifiedName('label key', 'meterfeed.io/capacity-type'),
    otherwise: '`<LABEL_PREFIX>/capacity-type`',
    fields: ['MeteringPolicy spec.capacityTypeLabel'],
    test: 'operator/observation/capacity-type.test.ts',
  },
} as const satisfies Record<string, Variable>;
