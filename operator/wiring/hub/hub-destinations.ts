import type { KubeConfig } from '@kubernetes/client-node';
import type { Registry } from 'prom-client';
import type { SettingsStore } from '../../config/settings.ts';
import {
  billingDestinations,
  existingDestination,
  type Retired,
} from '../../controllers/billing-destination.ts';
import { createControllerSet } from '../../controllers/controller-set.ts';
import { createSecretReader } from '../../controllers/secret-reader.ts';
import type { BillingView } from '../../controllers/views.ts';
import type { ExistingDestination } from '../../delivery/destination-status.ts';
import { Connection } from '../../kubernetes/connection.ts';
import { fencedConnection } from '../../kubernetes/fenced-connection.ts';
import { createReflectorMetrics, createWorkQueueMetrics } from '../../kubernetes/metrics.ts';
import type { WriteOutcome } from '../../ledger/ledger.ts';
import type { Clock } from '../../telemetry/clock.ts';
import type { Logger } from '../../telemetry/logger.ts';
import { aborted, type Part } from '../parts.ts';

/** The cluster that a hub runs in. */
export interface HubCluster {
  readonly kubeConfig: KubeConfig;
  /** The hub's own, with the Secrets that BillingDestinations name. */
  readonly namespace: string;
}

/** Destinations that a hub has beside those of its environment: the BillingDestinations of its cluster, for all streams. */
export interface HubDestinations {
  /** Every one that was there has been looked at: before, nothing is fed, and nobody is bidden farewell. */
  known(): boolean;
  /** Resolves when they are known; rejects with the signal's reason. */
  ready(signal: AbortSignal): Promise<void>;
  /** Also those whose settings cannot be used. */
  existing(): readonly ExistingDestination[];
  readonly parts: readonly Part[];
}

export interface HubDestinationsOptions {
  readonly instance: string;
  /** Where they are put in force. */
  readonly settings: SettingsStore;
  /** Whether this process certainly leads: nothing is written while it does not. */
  readonly mayAct: () => boolean;
  /** What has become of each over all streams. */
  readonly delivery: BillingView;
  /** Commits the cursors of destinations that cannot be used, in all streams. */
  readonly reserve: () => Promise<WriteOutcome>;
  /** Retires the cursors of a destination that nothing feeds any more, in all streams. */
  readonly retire: (destination: string) => Promise<Retired>;
  readonly clock: Clock;
  /** Uniform in [0, 1). */
  readonly random: () => number;
  readonly logger: Logger;
  readonly registry: Registry;
}

/** Of a hub that runs in no cluster, or without a right there. */
export const NO_DESTINATIONS: HubDestinations = {
  known: () => true,
  ready: async () => undefined,
  existing: () => [],
  parts: [],
};

/** Puts them in force, and reports in the objects what has become of them (docs/fleet.md#destinations). */
export function createHubDestinations(
  { kubeConfig, namespace }: HubCluster,
  options: HubDestinationsOptions,
): HubDestinations {
  const { instance, settings, delivery, clock, random, logger, registry } = options;
  const connection = fencedConnection(new Connection(kubeConfig), options.mayAct);
  const common = { connection, namespace, clock, random, logger };
  const set = createControllerSet({
    ...common,
    instance,
    queueMetrics: createWorkQueueMetrics(registry),
    reflectorMetrics: createReflectorMetrics(registry),
  });
  const controller = set.add(
    billingDestinations({
      isHub: true,
      settings,
      secrets: createSecretReader({ ...common, instance }),
      delivery,
      cursors: {
        reserve: options.reserve,
        retire: options.retire,
      },
    }),
  );
  let known = false;
  return {
    known: () => known,
    ready: (signal) => controller.ready(signal),
    existing: () => controller.objects().map((one) => existingDestination(one)),
    parts: [
      {
        name: 'connection',
        run: async (signal) => {
          await aborted(signal);
          await connection.close();
        },
      },
      {
        name: 'destinations',
        run: async (signal) => {
          void controller.ready(signal).then(
            () => {
              known = true;
            },
            () => undefined,
          );
          await set.run(signal);
        },
      },
    ],
  };
}
