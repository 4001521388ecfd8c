import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import type { Flags } from './flags.ts';

/** Users in this group are audited, and so is every service account. */
export const AUDITED_GROUP = 'meterfeed:audited';

const POLICY = {
  apiVersion: 'audit.k8s.io/v1',
  kind: 'Policy',
  omitStages: ['RequestReceived'],
  rules: [
    { level: 'Metadata', userGroups: [AUDITED_GROUP, 'system:serviceaccounts'] },
    { level: 'None' },
  ],
};

/** Where the API server of a directory writes its audit log, one JSON event a line. */
export function auditLogFile(directory: string): string {
  return join(directory, 'audit.log');
}

/**
 * Flags that let the API server record who asked for what, so that a test can hold an RBAC role
 * against the requests really made. Administrators are left out: their requests are the test's own.
 */
export function auditFlags(directory: string): Flags {
  const policyFile = join(directory, 'audit-policy.json');
  writeFileSync(policyFile, JSON.stringify(POLICY));
  return { 'audit-policy-file': policyFile, 'audit-log-path': auditLogFile(directory) };
}
