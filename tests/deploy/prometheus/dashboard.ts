// What the dashboard has to be. Dashboards of this type are appended by the test.
import type { AnnotationQuery, Dashboard, Panel, RowPanel, TableFieldOptions, GraphFieldConfig } from '@grafana/schema';
import type { Options as Stat } from '@grafana/schema/dist/esm/raw/composable/stat/panelcfg/x/StatPanelCfg_types.gen';
import type { Options as Table } from '@grafana/schema/dist/esm/raw/composable/table/panelcfg/x/TablePanelCfg_types.gen';
import type { Options as Series } from '@grafana/schema/dist/esm/raw/composable/timeseries/panelcfg/x/TimeSeriesPanelCfg_types.gen';

// JSON has no enums: where the schema wants a member of one, its value is right.
type Plain<T> = T extends string ? `${T}` : T extends object ? { [K in keyof T]: Plain<T[K]> } : T;

// What the data source Prometheus takes; its own package does not publish it.
interface Query {
  refId: string;
  datasource: { type: 'prometheus'; uid: string };
  editorMode: 'code';
  expr: string;
  legendFormat: string;
  instant: boolean;
  range: boolean;
  format: 'time_series' | 'table';
}

interface Annotation extends Omit<AnnotationQuery, 'target'> {
  target: { refId: string; expr: string; interval: string };
  titleFormat: string;
  textFormat: string;
  useValueForTime: boolean;
}

// Every panel has a title, says what it shows, and where it stands.
type Told = 'title' | 'description' | 'gridPos' | 'id' | 'fieldConfig';
type Kind<Name extends string, Options, Field> = Omit<Panel<never, Field>, 'type' | 'options' | 'targets'> &
  Required<Pick<Panel<never, Field>, Told>> & { type: Name; options: Options; targets: Query[] };

interface Ours extends Omit<Dashboard, 'panels' | 'annotations'> {
  panels: Array<
    | Kind<'timeseries', Series, GraphFieldConfig>
    | Kind<'stat', Stat, Record<string, never>>
    | Kind<'table', Table, TableFieldOptions>
    | Omit<RowPanel, 'panels'> & { panels: never[] }
  >;
  annotations: { list: Annotation[] };
}

type Declared = Plain<Ours>;
