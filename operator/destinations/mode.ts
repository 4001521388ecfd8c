import type { DestinationSettings } from '../settings/settings.ts';
import type { DestinationDefinition } from './definition.ts';

/**
 * Why a destination must not be used with its key: a key that bills for real needs `mode: live`, so that
 * nobody bills customers out of a trial, and a test key refuses it, so that nobody believes to
 * (docs/how-to/destinations.md#test-and-live). Undefined where mode and key agree, or the key does not tell.
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
