import type { CustomerIdKey } from '../settings/configurable-destination.ts';
import { sameValue } from '../model/same-value.ts';
import type { DestinationSettings } from '../settings/settings.ts';
import type { DestinationType } from '../model/destination-type.ts';
import { errorText } from '../model/error-text.ts';
import type { DestinationDefinition } from './definition.ts';
import type { Destination, DestinationContext } from './destination.ts';
import { kafka } from './kafka/definition.ts';
import { lago } from './lago/definition.ts';
import { metronome } from './metronome/definition.ts';
import { modeProblem } from './mode.ts';
import { noop } from './noop/definition.ts';
import { stripe } from './stripe/definition.ts';
import { webhook } from './webhook/definition.ts';

/** Every type of destination, in the order of the documentation. */
export const DESTINATIONS: readonly DestinationDefinition[] = [
  webhook,
  lago,
  stripe,
  metronome,
  kafka,
  noop,
];

/** Returns the definition of a type; undefined when there is no such type. */
export function definitionOf(type: DestinationType): DestinationDefinition | undefined {
  return DESTINATIONS.find((definition) => definition.type === type);
}

/** The metadata keys by which tenants name their customer ids, by type of destination. */
export const CUSTOMER_ID_KEYS: ReadonlyMap<DestinationType, CustomerIdKey> = new Map(
  DESTINATIONS.flatMap(({ type, customerId }) =>
    customerId === undefined ? [] : [[type, customerId]],
  ),
);

export type CreateDestinationOutcome =
  | { readonly kind: 'created'; readonly destination: Destination }
  /** The settings cannot be used; `what: where: "input"`. */
  | { readonly kind: 'invalid'; readonly reason: string };

export type CreateDestination = (settings: DestinationSettings) => CreateDestinationOutcome;

/** Returns the function that creates destinations from settings. */
export function createDestinationRegistry(context: DestinationContext): CreateDestination {
  return ({ name, type, mode, options }) => {
    const definition = definitionOf(type);
    if (definition === undefined) {
      return { kind: 'invalid', reason: `destination "${name}": unknown type: "${type}"` };
    }
    const problem = modeProblem(definition, { options, mode });
    if (problem !== undefined)
      return { kind: 'invalid', reason: `destination "${name}": ${problem}` };
    try {
      return { kind: 'created', destination: definition.create(name, options, context) };
    } catch (error) {
      return { kind: 'invalid', reason: `destination "${name}": ${errorText(error)}` };
    }
  };
}

/** Returns settings for another cluster's usage, with its name if the type has that option. */
export function forCluster(
  settings: DestinationSettings,
  clusterName: string,
): DestinationSettings {
  const definition = definitionOf(settings.type);
  if (definition?.forCluster === undefined) return settings;
  return { ...settings, options: definition.forCluster(settings.options, clusterName) };
}

/** Returns whether two settings make the same destination, credentials included. */
export function sameDestination(a: DestinationSettings, b: DestinationSettings): boolean {
  return sameValue(a, b);
}
