import type { DestinationDefaults } from '../settings/configurable-destination.ts';
import type { BillingDestinationSpec } from '../settings/custom-resources.generated.ts';
import type { DestinationSettings, SettingsStore } from '../settings/settings.ts';
import type { ExistingDestination } from '../delivery/destination-status.ts';
import type { WriteOutcome } from '../ledger/ledger.ts';
import { readyBySpec, type SpecStatus } from './conditions.ts';
import type { Acted, ControlledKind, CustomObject, Report } from './controlled-kind.ts';
import type { KnownObject } from './controller.ts';
import { secretNames, translateDestination } from './destination-settings.ts';
import { destinationClaims, destinationFields, isSettled } from './destination-status.ts';
import {
  SECRET_INTERVAL_MS,
  SECRET_RETRY_MS,
  type SecretReader,
  unreadSecret,
} from './secret-reader.ts';
import type { BillingView } from './views.ts';

/** The cursors of destinations in the ledger. */
export interface DestinationCursors {
  /**
   * Commits cursors for unusable resources without one, so that `startFrom` counts from then on
   * (docs/explanation/delivery.md#cursors).
   */
  reserve(): Promise<WriteOutcome>;
  /**
   * Retires the cursor after the last feeder of the destination has stopped
   * (docs/how-to/repair-delivery.md#delete-a-destination). Idempotent. A destination without a
   * cursor counts as retired.
   */
  retire(destination: string, signal: AbortSignal): Promise<Retired>;
}

export type Retired =
  | { readonly kind: 'retired' }
  | { readonly kind: 'failed'; readonly reason: string };

const CURSOR_FINALIZER = 'meterfeed.io/cursor';
/**
 * The finalizer of a hub. It shows the operator of the same cluster whose the object is
 * (docs/how-to/fleet.md#destinations).
 */
const HUB_FINALIZER = 'meterfeed.io/hub-cursors';

/** Returns the kind BillingDestination: a billing system or sink that receives usage. */
export function billingDestinations(options: {
  readonly settings: SettingsStore;
  readonly secrets: SecretReader;
  readonly delivery: BillingView;
  readonly cursors: DestinationCursors;
  /** Interval between reads of the Secrets that a destination names. */
  readonly secretIntervalMs?: number;
  /** Whether this process is a hub, which delivers all streams. */
  readonly isHub?: boolean;
  /** True to ignore destinations that a hub in this cluster has taken; by default false. */
  readonly leavesToHub?: boolean;
}): ControlledKind<BillingDestinationSpec> {
  const { settings, secrets, delivery, cursors, isHub = false, leavesToHub = false } = options;
  const intervalMs = options.secretIntervalMs ?? SECRET_INTERVAL_MS;
  /** Destinations with settings in force, and the generation of their spec. */
  const inForce = new Map<string, number>();

  /** Returns the last valid settings of a name, or those of the environment. */
  const settingsOf = (name: string): DestinationSettings | undefined =>
    settings.current().billing.destinations.find((one) => one.name === name);

  /** Suspends or resumes the settings in force, even if other fields of the spec are invalid. */
  function suspendInForce(name: string, suspend: boolean): void {
    const found = settingsOf(name);
    if (found !== undefined) settings.setDestination(name, { ...found, suspend });
  }

  function defaults(): DestinationDefaults {
    const { billing, identity } = settings.current();
    const { defaultPlanCode: planCode, currency } = billing;
    return { planCode, currency, clusterName: identity.clusterName };
  }

  return {
    resource: { group: 'meterfeed.io', version: 'v1alpha1', plural: 'billingdestinations' },
    kind: 'BillingDestination',
    finalizer: isHub ? HUB_FINALIZER : CURSOR_FINALIZER,
    isAnothers: ({ finalizers }) => leavesToHub && finalizers.includes(HUB_FINALIZER),

    async act({ name, generation, spec }, signal): Promise<Acted> {
      suspendInForce(name, spec.suspend ?? false);
      const names = secretNames(spec);
      const reads = await secrets.read(names, signal);
      const again = names.length === 0 ? {} : { againMs: intervalMs };
      const unread = unreadSecret(reads);
      // Credentials that were read before stay in force.
      if (unread !== undefined && inForce.get(name) === generation) {
        return { specStatus: { kind: 'accepted' }, againMs: SECRET_RETRY_MS };
      }
      if (unread !== undefined) {
        await cursors.reserve();
        return { specStatus: { kind: 'waiting', message: unread } };
      }
      const translation = translateDestination(name, spec, reads, defaults());
      if (translation.kind === 'invalid') {
        const reserved = await cursors.reserve();
        return {
          specStatus: { ...translation, inForce: settingsOf(name) !== undefined },
          ...(reserved.kind === 'failed' ? { againMs: SECRET_RETRY_MS } : again),
        };
      }
      settings.setDestination(name, translation.settings);
      inForce.set(name, generation);
      return { specStatus: { kind: 'accepted' }, ...again };
    },

    async remove(name, signal) {
      settings.setDestination(name, undefined);
      inForce.delete(name);
      // A destination of the environment with the same name continues from the same cursor.
      if (settingsOf(name) !== undefined) return { kind: 'removed' };
      const retired = await cursors.retire(name, signal);
      if (retired.kind === 'failed') {
        return { kind: 'failed', reason: `cannot retire the cursor: ${retired.reason}` };
      }
      const note =
        'The cursor is retired; applying a destination of the same name and type again resumes there';
      return { kind: 'removed', note };
    },

    report: (object, specStatus) => reportOf(object, specStatus, delivery),
  };
}

function reportOf(
  { name, spec }: Pick<CustomObject<BillingDestinationSpec>, 'name' | 'spec'>,
  specStatus: SpecStatus,
  delivery: BillingView,
): Report {
  const progress = delivery.list().find((destination) => destination.name === name);
  const backlog = delivery.backlog(name);
  const facts = { specStatus, suspended: spec.suspend ?? false, progress, backlog };
  return {
    settled: isSettled(facts),
    claims: destinationClaims(facts),
    fields: destinationFields(progress),
  };
}

/** Returns the destination for delivery and the HTTP API. `problem`: of the condition `Ready`. */
export function existingDestination({
  name,
  spec,
  deleting,
  specStatus,
}: KnownObject<BillingDestinationSpec>): ExistingDestination {
  const claim = specStatus && readyBySpec(specStatus);
  const problem = claim && { reason: claim.reason, message: claim.message };
  return {
    name,
    type: spec.type,
    suspend: spec.suspend ?? false,
    ...(!deleting && { startFrom: spec.startFrom ?? 'now' }),
    problem,
  };
}
