import { createSettingsStore } from '../../config/settings-store.ts';
import type { SettingsStore } from '../../config/settings.ts';
import { settingsFrom } from '../../config/testing/settings.ts';

/** A store as after a start with an empty environment. */
export function startedSettings(): SettingsStore {
  return createSettingsStore(settingsFrom({}));
}
