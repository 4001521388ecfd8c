import type { Settings, SettingsStore } from '../settings/settings.ts';
import type { ExistingDestination } from '../delivery/destination-status.ts';
import type { KubernetesEvent } from '../kubernetes/events.ts';
import type { OperatorComponent } from '../kubernetes/operator-base.ts';
import {
  billingDestinations,
  type DestinationCursors,
  existingDestination,
} from './billing-destination.ts';
import { ControllerSet, type ControllerSetOptions } from './controller-set.ts';
import { ensureDefaultPolicy, meteringPolicies, POLICY_NAME } from './metering-policy.ts';
import type { PriceRecords } from './stored-price-books.ts';
import { priceBooks } from './price-book.ts';
import { SecretReader } from './secret-reader.ts';
import { tenantOverrides } from './tenant-override.ts';
import type { PolicyViews } from './policy-status.ts';
import type { BillingView } from './views.ts';

/** The running controllers. */
export interface Controllers {
  /** Runs until the signal is aborted. Rejects if a controller fails. */
  run(signal: AbortSignal): Promise<void>;
  /**
   * Resolves after every custom resource of the first list is reconciled, except PriceBooks.
   * Metering and delivery do not depend on prices, so unreadable PriceBooks delay nothing.
   */
  ready(signal: AbortSignal): Promise<void>;
  /** Returns whether every PriceBook of the first list is reconciled. */
  pricesKnown(): boolean;
  /**
   * Returns the existing BillingDestinations, including those with unusable settings. Their cursors
   * must stay, and people must see them.
   */
  destinations(): readonly ExistingDestination[];
  /**
   * Returns the TenantOverride of a name, or the MeteringPolicy without a name, for Events about
   * it. Undefined if it is gone.
   */
  giverOf(override: string | undefined): KubernetesEvent['regarding'] | undefined;
}

/**
 * Creates the controllers of the custom resources. They put specs into settings and the engine's
 * state into status.
 */
export function createControllers(
  options: ControllerSetOptions &
    PolicyViews & {
      /** The operator's own namespace. Secrets are read from this namespace only. */
      readonly namespace: string;
      readonly settings: SettingsStore;
      /** The settings without any custom resource. */
      readonly environment: Settings;
      readonly delivery: BillingView;
      /** Records of prices in force, for the next start. */
      readonly records: PriceRecords;
      /** Returns whether a metric of this code is in the catalogue. */
      readonly knowsMetric: (code: string) => boolean;
      readonly cursors: DestinationCursors;
      /** True to ignore BillingDestinations that a hub in this cluster has taken; default false. */
      readonly leavesToHub?: boolean;
    },
): Controllers {
  const { connection, clock, logger } = options;
  const set = new ControllerSet(options);
  const secrets = new SecretReader(options);
  const withSecrets = { ...options, secrets, secretIntervalMs: options.timings?.secrets };
  const destinations = set.add(billingDestinations(withSecrets));
  const overrides = set.add(tenantOverrides(options));
  const policies = set.add(meteringPolicies(withSecrets));
  const awaited = [destinations, overrides, policies];
  const books = set.add(priceBooks(options));
  let pricesKnown = false;

  return {
    run: (signal) => {
      void books
        .ready(signal)
        .then(() => {
          pricesKnown = true;
        })
        .catch(() => undefined);
      const defaults: OperatorComponent = {
        run: (stopping) => ensureDefaultPolicy({ connection, clock, logger }, stopping),
      };
      return set.run(signal, [defaults]);
    },
    ready: async (signal) => {
      await Promise.all(awaited.map((controller) => controller.ready(signal)));
    },
    pricesKnown: () => pricesKnown,
    destinations: () => destinations.objects().map((one) => existingDestination(one)),
    giverOf: (override) => {
      const apiVersion = 'meterfeed.io/v1alpha1';
      const kind = override === undefined ? 'MeteringPolicy' : 'TenantOverride';
      const objects = override === undefined ? policies.objects() : overrides.objects();
      const found = objects.find(({ name }) => name === (override ?? POLICY_NAME));
      return found && { apiVersion, kind, name: found.name, uid: found.uid };
    },
  };
}
