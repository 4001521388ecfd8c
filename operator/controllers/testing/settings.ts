import { loadEnvironment } from '../../config/load-environment.ts';
import { createSettingsStore } from '../../config/settings-store.ts';
import type { Settings, SettingsStore } from '../../config/settings.ts';
import { DESTINATIONS } from '../../destinations/registry.ts';

/** The settings of an environment, which must be a good one. */
export function settingsFrom(environment: Readonly<Record<string, string>>): Settings {
  const loaded = loadEnvironment(environment, DESTINATIONS);
  if (loaded.kind === 'invalid') throw new Error(loaded.problems.join('\n'));
  return loaded.settings;
}

/** A store as after a start with an empty environment. */
export function startedSettings(): SettingsStore {
  return createSettingsStore(settingsFrom({}));
}
