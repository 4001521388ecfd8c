import type { DestinationSettings } from '../settings/settings.ts';
import type { DestinationDefinition } from './definition.ts';

/**
 * Returns why a destination must not use its key; undefined where mode and key agree, or the key
 * shows no mode.
 *
 * A live key requires `mode: live`, so that a trial bills no customers. A test key refuses it, so
 * that nobody expects bills from it (docs/how-to/destinations.md#test-and-live).
 */
export function modeProblem(
  definition: Pick<DestinationDefinition, 'keyMode'>,
  { mode = 'test', options }: Pick<DestinationSettings, 'mode' | 'options'>,
): string | undefined {
  const key = definition.keyMode?.(options);
  if (key === undefined || key.mode === mode) return undefined;
  const fix =
    key.mode === 'live'
      ? 'set mode: live (DESTINATIONS_MODE=live for ADAPTERS) to bill customers for real, or give a test key'
      : 'give a live key, or leave mode: test';
  return `a ${key.mode} key (${key.prefix}…) with mode: "${mode}"; ${fix}`;
}
