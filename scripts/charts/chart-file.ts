import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { stringify } from 'yaml';

const HOME = 'https://meterfeed.io';
const ICON = join(import.meta.dirname, '../../operator/http/dashboard/client/icon.svg');

/**
 * Minimum for CEL in schemas and admission policies (docs/explanation/discovery.md,
 * docs/how-to/enforcement.md).
 */
export const MINIMUM_KUBERNETES = '1.30.0';

export interface Chart {
  readonly name: string;
  readonly description: string;
  readonly version: string;
  readonly appVersion: string;
  readonly keywords?: readonly string[];
  /**
   * In addition to the annotations of both charts
   * (https://artifacthub.io/docs/topics/annotations/helm/).
   */
  readonly annotations?: Readonly<Record<string, string>>;
}

/** Returns the text of Chart.yaml. The icon is inline, so that showing it needs no request. */
export function chartFile({ annotations, keywords, ...chart }: Chart): string {
  const icon = readFileSync(ICON).toString('base64');
  return stringify({
    apiVersion: 'v2',
    ...chart,
    type: 'application',
    // Providers append to the version, as in v1.34.2-gke.100, which Helm reads as earlier than
    // 1.34.2.
    kubeVersion: `>=${MINIMUM_KUBERNETES}-0`,
    home: HOME,
    sources: [HOME],
    icon: `data:image/svg+xml;base64,${icon}`,
    ...(keywords !== undefined && { keywords }),
    annotations: {
      'artifacthub.io/license': 'Apache-2.0',
      'artifacthub.io/category': 'monitoring-logging',
      'artifacthub.io/operator': 'true',
      ...annotations,
    },
  });
}
