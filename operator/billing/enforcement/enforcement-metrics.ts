import { Counter, Histogram, type Registry } from 'prom-client';
import { BILLING_STATES, type BillingState } from '../../settings/settings.ts';
import { DESTINATIONS } from '../../destinations/registry.ts';
import type { DestinationType } from '../../model/destination-type.ts';
import { gaugesBy, gaugesIn } from '../../telemetry/gauges.ts';

/** Registers the metrics of enforcement. */
export function createEnforcementMetrics(
  registry: Registry,
  gauges: {
    readonly tenantsIn: (state: BillingState) => number;
    readonly suspendedClusters: () => number;
    readonly pending: () => number;
  },
) {
  const registers = [registry];
  const messages = new Counter({
    name: 'meterfeed_webhook_messages_total',
    help: 'Messages of billing systems, by billing system and outcome',
    labelNames: ['provider', 'outcome'],
    registers,
  });
  // Prometheus sees the first increase only of a series that existed before.
  for (const { type: provider, alerts } of DESTINATIONS) {
    if (alerts !== undefined) messages.inc({ provider, outcome: 'refused' }, 0);
  }
  const applied = new Histogram({
    name: 'meterfeed_enforcement_apply_seconds',
    help: 'Time from when an object needs other marks to when it has them',
    buckets: [0.01, 0.05, 0.1, 0.5, 1, 2, 5, 10, 30, 60, 300],
    registers,
  });
  const failures = new Counter({
    name: 'meterfeed_enforcement_failures_total',
    help: 'Attempts to mark an object that failed',
    registers,
  });
  gaugesBy(registry, 'state', () => BILLING_STATES.map((state) => [state, state] as const))(
    'meterfeed_tenant_billing_states',
    'Tenants with a recorded billing state, by state',
    gauges.tenantsIn,
  );
  const gauge = gaugesIn(registry);
  gauge(
    'meterfeed_suspended_tenant_clusters',
    'Tenant clusters whose new pods are refused',
    gauges.suspendedClusters,
  );
  gauge(
    'meterfeed_enforcement_pending_objects',
    'Namespaces and control planes that do not have their marks yet',
    gauges.pending,
  );
  return {
    received: (provider: DestinationType, outcome: string) => messages.inc({ provider, outcome }),
    applied: (seconds: number) => applied.observe(seconds),
    failed: () => failures.inc(),
  };
}
