import { describe, expect, test } from 'vitest';
import { Secret } from '../../model/secret.ts';
import type { Environment } from '../load-environment.ts';
import type { Settings } from '../settings.ts';
import type { SettingTable } from '../table/setting.ts';
import { settingsFrom } from './settings.ts';

/**
 * A variable with a text, and the setting that it makes; with other variables where it needs some.
 */
export type Effect = readonly [
  name: string,
  text: string,
  select: (settings: Settings) => unknown,
  expected: unknown,
  others?: Environment,
];

/** Secrets as plain text, so that expectations can be written. */
export function revealed(value: unknown): unknown {
  if (value instanceof Secret) return value.reveal();
  if (value instanceof Map) {
    return Object.fromEntries([...value].map(([key, inner]) => [key, revealed(inner)]));
  }
  if (Array.isArray(value)) return value.map(revealed);
  if (typeof value !== 'object' || value === null) return value;
  return Object.fromEntries(Object.entries(value).map(([key, inner]) => [key, revealed(inner)]));
}

/** One of the options of the only destination, which must be of the type. */
export function optionOf(type: string, field: string) {
  return ({ billing }: Settings): unknown => {
    const [destination] = billing.destinations;
    if (destination?.type !== type) return undefined;
    const { options } = destination;
    return typeof options === 'object' && options !== null
      ? Object.entries(options).find(([key]) => key === field)?.[1]
      : undefined;
  };
}

/** The default, and what only refuses others. */
const WITHOUT_A_SETTING: ReadonlySet<string> = new Set(['SPOT_DISCOUNT_PERCENT', 'REPLICATED']);

/** What holds where it is not set, which some destinations refuse. */
function withoutIt(environment: Environment, select: Effect[2]): unknown {
  try {
    return revealed(select(settingsFrom(environment)));
  } catch {
    return 'refused';
  }
}

/**
 * Tests that each variable of a set makes the setting that it is said to make, under each of its
 * names.
 */
export function testEffects(effects: readonly Effect[], set: SettingTable): void {
  describe('a variable that is set and has no effect', () => {
    for (const [name, text, select, expected, others = {}] of effects) {
      test(`${name}=${text}`, () => {
        expect(revealed(select(settingsFrom({ ...others, [name]: text })))).toStrictEqual(expected);
        if (WITHOUT_A_SETTING.has(name)) return;
        expect(withoutIt({ ...others, [name]: undefined }, select)).not.toStrictEqual(expected);
      });
    }

    test('the table misses no variable of the schema', () => {
      const covered = new Set(effects.map(([name]) => name));
      expect(Object.keys(set).filter((name) => !covered.has(name))).toStrictEqual([]);
    });

    test('the second spelling of a destination’s variables means the same', () => {
      for (const [name, text, select, expected, others = {}] of effects) {
        for (const alias of set[name]?.aliases ?? []) {
          const { [name]: _dropped, ...rest } = others;
          expect(revealed(select(settingsFrom({ ...rest, [alias]: text })))).toStrictEqual(
            expected,
          );
        }
      }
    });
  });
}
