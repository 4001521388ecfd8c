import { DESTINATIONS } from '../../destinations/registry.ts';
import { type Environment, loadEnvironment } from '../load-environment.ts';
import { parseOrThrow } from '../parsers/parser.ts';
import type { Settings } from '../settings.ts';
import type { Setting, SettingTable } from '../table/setting.ts';
import { policyField, TABLE } from '../table/table.ts';

/**
 * The settings of an environment, which must be a good one. A name such as `spec.settlingDelay` is
 * that of a field of the MeteringPolicy, with its value written as a variable's.
 */
export function settingsFrom(given: Environment = {}): Settings {
  const isField = ([name]: [string, unknown]): boolean => name.startsWith('spec.');
  const [fields, variables] = [true, false].map((wanted) =>
    Object.entries(given).filter((entry) => isField(entry) === wanted),
  );
  const loaded = loadEnvironment(Object.fromEntries(variables ?? []), DESTINATIONS);
  if (loaded.kind === 'invalid') throw new Error(loaded.problems.join('\n'));
  return (fields ?? []).reduce((settings, [field, text = '']) => {
    if (text === '') return settings;
    const { part, key, setting } = placeOf(field);
    const value = { [key]: parseOrThrow(setting.parser, text) };
    return { ...settings, [part]: { ...settings[part], ...value } };
  }, loaded.settings);
}

function placeOf(field: string) {
  for (const part of Object.keys(TABLE) as (keyof typeof TABLE)[]) {
    const table: SettingTable = TABLE[part];
    const found = Object.entries<Setting>(table).find(([, one]) => policyField(one) === field);
    if (found !== undefined) return { part, key: found[0], setting: found[1] };
  }
  throw new Error(`no field of the MeteringPolicy: "${field}"`);
}
