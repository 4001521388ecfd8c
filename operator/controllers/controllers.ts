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

export interface ControllersOptions extends ControllerSetOptions, PolicyViews {
  /** The operator's own namespace: the only one whose Secrets are read. */
  readonly namespace: string;
  readonly settings: SettingsStore;
  /** The settings without any custom resource. */
  readonly environment: Settings;
  readonly delivery: BillingView;
  /** Where prices that are in force outlive a restart. */
  readonly records: PriceRecords;
  /** Whether a metric of this code is in the catalogue. */
  readonly knowsMetric: (code: string) => boolean;
  readonly cursors: DestinationCursors;
  /** BillingDestinations that a hub in this cluster has taken are left to it; by default they are this process's, too. */
  readonly leavesToHub?: boolean;
}

/** The controllers at work. */
export interface Controllers {
  /** Works until the signal is aborted; rejects when a controller cannot go on. */
  run(signal: AbortSignal): Promise<void>;
  /**
   * Resolves when every custom resource that was there has been looked at, but for PriceBooks: nothing that is metered or
   * delivered depends on prices, so nobody waits for them where they cannot be read.
   */
  ready(signal: AbortSignal): Promise<void>;
  /** Whether every PriceBook that was there has been looked at. */
  pricesKnown(): boolean;
  /**
   * The BillingDestinations that exist, also those whose settings cannot be used and are therefore not in
   * force: their cursors must be kept, and people must see them.
   */
  destinations(): readonly ExistingDestination[];
  /** The TenantOverride of a name, or without one the MeteringPolicy, for events about it; undefined where it is gone. */
  giverOf(override: string | undefined): KubernetesEvent['regarding'] | undefined;
}

/** The controllers of the custom resources: specs go into the settings, the engine's state into status. */
export function createControllers(options: ControllersOptions): Controllers {
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
