import { sameValue } from '../config/immutable.ts';
import type { DestinationSettings } from '../config/settings.ts';
import type { DestinationContext } from './context.ts';
import type { Destination } from './destination.ts';
import { createLago } from './lago/lago.ts';
import { createMetronome } from './metronome/metronome.ts';
import { createNoop } from './noop/noop.ts';
import { createStripe } from './stripe/stripe.ts';
import { createWebhook } from './webhook/webhook.ts';

export type CreateDestinationOutcome =
  | { readonly kind: 'created'; readonly destination: Destination }
  /** The settings cannot be used; `what: where: "input"`. */
  | { readonly kind: 'invalid'; readonly reason: string };

export type CreateDestination = (settings: DestinationSettings) => CreateDestinationOutcome;

/** The maker of destinations: one line for each type. */
export function createDestinationRegistry(context: DestinationContext): CreateDestination {
  return (settings) => {
    try {
      return create(settings, context);
    } catch (error) {
      const reason = error instanceof Error ? error.message : String(error);
      return { kind: 'invalid', reason: `destination "${settings.name}": ${reason}` };
    }
  };
}

function create(
  settings: DestinationSettings,
  context: DestinationContext,
): CreateDestinationOutcome {
  switch (settings.type) {
    case 'lago':
      return created(createLago(settings.name, settings.lago, context));
    case 'stripe':
      return created(createStripe(settings.name, settings.stripe, context));
    case 'metronome':
      return created(createMetronome(settings.name, settings.metronome, context));
    case 'webhook':
      return created(createWebhook(settings.name, settings.webhook, context));
    case 'noop':
      return created(createNoop(settings.name, context));
    default:
      throw unknownType(settings);
  }
}

/** The types of the settings leave nothing over. */
function unknownType(settings: never): Error {
  return new TypeError(`unknown type: "${(settings as DestinationSettings).type}"`);
}

function created(destination: Destination): CreateDestinationOutcome {
  return { kind: 'created', destination };
}

/** Whether two settings make the same destination, credentials included. */
export function sameDestination(a: DestinationSettings, b: DestinationSettings): boolean {
  return sameValue(a, b);
}
