import type { DestinationSettings, SettingsStore } from '../config/settings.ts';
import type { Delivery } from '../delivery/delivery.ts';
import type { Discovery } from '../discovery/discovery.ts';
import type { Logger } from '../telemetry/logger.ts';
import type { Part } from './parts.ts';

export interface DeliveryPartOptions {
  readonly delivery: Delivery;
  readonly discovery: Discovery;
  readonly settings: SettingsStore;
  readonly logger: Logger;
}

/** Delivery by the settings in force, which must know every destination; offboards whom discovery has given up. */
export function deliveryPart(options: DeliveryPartOptions): Part {
  const { delivery, discovery, settings, logger } = options;
  const apply = (destinations: readonly DestinationSettings[]): Promise<void> => {
    if (destinations.length === 0) {
      logger.info('[bootstrap] no destination is configured: events stay in the ledger');
    }
    return delivery.apply(destinations);
  };
  const offboard = async (): Promise<void> => {
    for (const { tenant } of discovery.offboarded()) {
      const outcome = await delivery.offboard(tenant);
      if (outcome.kind === 'failed') logger.warn(`[controller] ${outcome.message}`);
      else discovery.acceptOffboarding(tenant.id);
    }
  };
  return {
    name: 'delivery',
    run: async (signal) => {
      const endings = [
        settings.subscribe((next, previous) => {
          const { destinations } = next.billing;
          if (destinations !== previous.billing.destinations) void apply(destinations);
        }),
        discovery.subscribe(() => void offboard()),
      ];
      await apply(settings.current().billing.destinations);
      await delivery.run(signal);
      for (const end of endings) end();
    },
  };
}
