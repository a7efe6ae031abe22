// Grafana's time series panels of a run, by the components that Grafana itself draws with; no server is involved.
// `window.RUN` is [{title, unit, times_ms, series: {name: values}}]; a null is a gap.

import { createTheme, dateTime, FieldType, getDisplayProcessor, ThemeContext } from '@grafana/data';
import { PanelChrome, TimeSeries } from '@grafana/ui';
import { createRoot } from 'react-dom/client';
import 'uplot/dist/uPlot.min.css';

const WIDTH = 640;
const HEIGHT = 250;
const theme = createTheme({ colors: { mode: 'light' } });

// What the panel's own defaults are: lines one pixel wide, no fill, points where the data are sparse, colours in turn.
const custom = {
  drawStyle: 'line',
  lineInterpolation: 'linear',
  lineWidth: 1,
  fillOpacity: 0,
  gradientMode: 'none',
  pointSize: 5,
  showPoints: 'auto',
  spanNulls: false,
  axisPlacement: 'auto',
  axisBorderShow: false,
  axisColorMode: 'text',
  axisCenteredZero: false,
  barAlignment: 0,
  scaleDistribution: { type: 'linear' },
  stacking: { group: 'A', mode: 'none' },
  thresholdsStyle: { mode: 'off' },
  hideFrom: { legend: false, tooltip: false, viz: false },
};

function frame({ unit, times_ms, series }) {
  const fields = [
    { name: 'Time', type: FieldType.time, config: {}, values: times_ms },
    ...Object.entries(series).map(([name, values]) => ({
      name,
      type: FieldType.number,
      config: { displayName: name, unit, min: 0, custom, color: { mode: 'palette-classic' } },
      values,
    })),
  ];
  fields.forEach((field, index) => {
    field.state = { seriesIndex: index - 1 };
    field.display = getDisplayProcessor({ field, theme });
  });
  return { name: 'run', length: times_ms.length, fields };
}

function Panel({ panel, range }) {
  return (
    <PanelChrome title={panel.title} width={WIDTH} height={HEIGHT}>
      {(width, height) => (
        <TimeSeries
          frames={[frame(panel)]}
          width={width}
          height={height}
          timeRange={range}
          timeZone="utc"
          legend={{ displayMode: 'list', placement: 'bottom', calcs: [], showLegend: true }}
        />
      )}
    </PanelChrome>
  );
}

const instants = window.RUN.flatMap(({ times_ms }) => times_ms);
const from = dateTime(Math.min(...instants));
const to = dateTime(Math.max(...instants));
const range = { from, to, raw: { from, to } };

createRoot(document.getElementById('dashboard')).render(
  <ThemeContext.Provider value={theme}>
    <div style={{ display: 'grid', gap: 8, padding: 8, width: WIDTH, fontFamily: theme.typography.fontFamily }}>
      {window.RUN.map((panel) => (
        <Panel key={panel.title} panel={panel} range={range} />
      ))}
    </div>
  </ThemeContext.Provider>
);
