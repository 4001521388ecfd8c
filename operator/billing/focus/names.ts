import type { FocusSettings } from '../../settings/settings.ts';
import type { FocusNames } from './rows.ts';
import { serviceOf } from './services.ts';

/**
 * The names in a file. `portalName` is the name of the provider where the settings have none, and
 * `clusterName` where the portal has none either.
 */
export function focusNames(
  settings: FocusSettings,
  portalName: string | undefined,
  clusterName: string,
  known: Pick<FocusNames, 'metric' | 'tenant' | 'cluster'>,
): FocusNames {
  const provider = settings.provider ?? portalName ?? clusterName;
  return {
    provider,
    publisher: settings.publisher ?? provider,
    invoiceIssuer: settings.invoiceIssuer ?? provider,
    hostProvider: settings.hostProvider ?? provider,
    service: (metric) => serviceOf(metric, settings.services),
    ...known,
  };
}
