import { createSettingsStore } from '../../settings/settings-store.ts';
import type { SettingsStore } from '../../settings/settings.ts';
import { settingsFrom } from '../../settings/testing/settings.ts';

/** A store as after a start with an empty environment. */
export function startedSettings(): SettingsStore {
  return createSettingsStore(settingsFrom({}));
}
