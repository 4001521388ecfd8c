import { invalid, problemText } from './parsers/parser.ts';

const inPolicy = (field: string): string =>
  `set ${field} of the MeteringPolicy, and delete the variable`;

/** Variables without effect, each with what to do instead. */
const REMOVED: Readonly<Record<string, string>> = {
  LEDGER_SPOOL_SIZE: 'delete it; windows wait in memory while the database is away',
  DESTINATIONS_AGGREGATE:
    'delete it; make windows longer by COLLECTION_INTERVAL where a billing system takes fewer events a second than come',
  SETTLING_DELAY: inPolicy('spec.settlingDelay'),
  POD_LIFETIME: inPolicy('spec.podLifetime'),
  METER_BY_QUEUE: inPolicy('spec.meterByQueue'),
  GPU_QUANTITY: inPolicy('spec.gpuQuantity'),
  OWN_NODE_TRUST: inPolicy('spec.privateNodeTrust'),
  OWN_NODE_DOWNTIME_PERCENT: inPolicy('spec.privateNodeDowntimePercent'),
  MAX_OWN_NODES: inPolicy('spec.maxPrivateNodes'),
  DISCOVERY_SOURCES: inPolicy('spec.discovery.sources'),
  NAMESPACE_TENANT_KEYS: inPolicy('spec.discovery.namespaceTenantKeys'),
  TRUST_PLATFORM_METADATA: inPolicy('spec.discovery.trustPlatformMetadata'),
  TRUST_WORKLOAD_METADATA: inPolicy('spec.discovery.trustWorkloadMetadata'),
  TENANT_API_ALLOWED_HOSTS: inPolicy('spec.tenantAPI.allowedHosts'),
  INGEST_UNKNOWN_TENANTS: inPolicy('spec.ingest.unknownTenants'),
};

/** Returns a text for each removed variable that the environment still sets. */
export function removedTexts(environment: Readonly<Record<string, string | undefined>>): string[] {
  return Object.entries(REMOVED).flatMap(([name, fix]) => {
    const text = environment[name] ?? '';
    return text === '' ? [] : [problemText(name, invalid('removed', fix), text)];
  });
}
