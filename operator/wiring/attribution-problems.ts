import type { WindowReport } from '../windows/window-report.ts';

/** What makes it unclear whom something is billed to. */
interface Sources {
  readonly discovery: { problems(): readonly string[] };
  readonly windows: { reports(): readonly WindowReport[] };
}

/** What discovery found, and the nodes that several tenant clusters claimed in the last window that looked at nodes. */
export function attributionProblems({ discovery, windows }: Sources): readonly string[] {
  const last = windows.reports().findLast(({ scopes }) => scopes.includes('gpus'));
  const contested = (last?.contestedNodes ?? []).map(
    ({ node, tenantClusters }) =>
      `node claimed by several tenant clusters: ${node}: "${tenantClusters.join(', ')}": it is dedicated to none of them and its pods are billed as shared; leave the labels of one`,
  );
  return [...discovery.problems(), ...contested];
}
