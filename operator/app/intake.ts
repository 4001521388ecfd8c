import type { Views } from '../http/views.ts';
import { AccessCheck } from '../intake/access-check.ts';
import { Intake } from '../intake/intake.ts';
import type { Budgets } from './budgets.ts';
import type { BuildContext } from './build-context.ts';
import type { Component } from './components.ts';
import { whenConfigured } from './custom-resources.ts';
import type { Billing } from './delivery.ts';
import type { Metering } from './metering.ts';

/** The requests of gateways: what they report, and what they may still use. */
export interface Gateways {
  readonly views: Required<Pick<Views, 'intake' | 'access'>>;
  readonly component: Component;
}

/**
 * Builds the intake of gateways' events and the access check. Before the custom resources have been
 * read nothing is taken: their rules say which events count.
 */
export function buildGateways(
  { ledger, clock, logger, registry, settings, environment, customResources }: BuildContext,
  { catalog }: Pick<Metering, 'catalog'>,
  { held, enforcement }: Pick<Billing, 'held' | 'enforcement'>,
  { budgets }: Pick<Budgets, 'budgets'>,
): Gateways {
  const intake = new Intake({
    ledger,
    held,
    clock,
    logger,
    registry,
    region: environment.identity.region,
    unitOf: (metric) => catalog().find(metric)?.unit,
    windowMs: () => settings.current().ingest.windowMs,
    lateForMs: () => settings.current().ingest.lateForMs,
  });
  const access = new AccessCheck({
    budgets,
    openUsage: (tenant, position) =>
      intake.isReady ? intake.openSums(tenant, position) : undefined,
    isKnown: (tenant) =>
      held.isKnown(tenant) || settings.current().ingest.unknownTenants === 'create',
    billingState: (tenant) => enforcement.stateOf(tenant),
    isSpared: (tenant) => settings.current().enforcement.neverSuspend.includes(tenant),
  });
  return {
    views: { intake, access },
    component: whenConfigured(customResources, {
      name: 'intake',
      run: (signal) => intake.run(signal),
    }),
  };
}
