import type { Settings, SettingsStore } from '../settings/settings.ts';

/**
 * Resolves to true when `isWanted` holds for the settings in force, and to false if the signal is
 * aborted first.
 */
export function whenWanted(
  settings: Pick<SettingsStore, 'current' | 'subscribe'>,
  isWanted: (settings: Settings) => boolean,
  signal: AbortSignal,
): Promise<boolean> {
  if (isWanted(settings.current())) return Promise.resolve(true);
  return new Promise((resolve) => {
    const settle = (isSo: boolean): void => {
      end();
      signal.removeEventListener('abort', abort);
      resolve(isSo);
    };
    const abort = (): void => settle(false);
    const end = settings.subscribe((next) => {
      if (isWanted(next)) settle(true);
    });
    signal.addEventListener('abort', abort, { once: true });
    if (signal.aborted) abort();
  });
}
