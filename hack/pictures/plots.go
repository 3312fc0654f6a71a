package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/plotutil"
	"gonum.org/v1/plot/vg"
)

// figures are what `make bench` reports, by benchmark and name.
type figures map[string]map[string]float64

// picture is a plot: of bars with names, or of lines if the series have X.
type picture struct {
	File, Title, Unit string
	// Axis names X.
	Axis   string
	Names  []string
	Series []series
}

type series struct {
	Name      string
	X, Values []float64
	// Figures are the benchmark and the name of each value that figures.json contains.
	Figures [][2]string
}

// readPlots reads the plots, with the values of figures.json.
func readPlots(folder string) ([]picture, error) {
	var recorded figures
	var plots []picture
	err := errors.Join(read(filepath.Join(folder, "figures.json"), &recorded),
		read(filepath.Join(folder, "plots.json"), &plots))
	for _, p := range plots {
		for i := range p.Series {
			s := &p.Series[i]
			for _, name := range s.Figures {
				value, ok := recorded[name[0]][name[1]]
				if !ok {
					err = errors.Join(err, fmt.Errorf("%s: figures.json has no %s", p.File, name))
				}
				s.Values = append(s.Values, value)
			}
			if want := max(len(p.Names), len(s.X)); len(s.Values) != want {
				err = errors.Join(err, fmt.Errorf("%s: %s needs %d values", p.File, s.Name, want))
			}
		}
	}
	return plots, err
}

func read(file string, into any) error {
	text, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	return json.Unmarshal(text, into)
}

// save draws the plot.
func (p picture) save(file string) error {
	const width, height = 13 * vg.Centimeter, 8 * vg.Centimeter
	drawn := plot.New()
	drawn.Title.Text, drawn.X.Label.Text, drawn.Y.Label.Text = p.Title, p.Axis, p.Unit
	drawn.X.Min, drawn.Y.Min = 0, 0
	drawn.Legend.Top = true
	drawn.Legend.Left = len(p.Names) == 0
	drawn.Add(plotter.NewGrid())
	if len(p.Names) > 0 {
		drawn.NominalX(p.Names...)
		drawn.X.Tick.Label.Font.Size = vg.Points(8)
		drawn.X.Min, drawn.X.Max = -0.5, float64(len(p.Names))-0.5
	}
	top := 0.0
	for i, s := range p.Series {
		add := p.line
		if len(p.Names) > 0 {
			add = p.bars
		}
		if err := add(drawn, i, s); err != nil {
			return err
		}
		for _, value := range s.Values {
			top = max(top, value)
		}
	}
	drawn.Y.Max = top * 1.25 // space for the legend
	return drawn.Save(width, height, file)
}

func (p picture) line(to *plot.Plot, i int, s series) error {
	points := make(plotter.XYs, len(s.X))
	for j := range s.X {
		points[j] = plotter.XY{X: s.X[j], Y: s.Values[j]}
	}
	line, dots, err := plotter.NewLinePoints(points)
	if err != nil {
		return err
	}
	line.Color, dots.Color, dots.Shape = plotutil.Color(i), plotutil.Color(i), plotutil.Shape(i)
	to.Add(line, dots)
	to.Legend.Add(s.Name, line, dots)
	return nil
}

func (p picture) bars(to *plot.Plot, i int, s series) error {
	const room = 270 // points for all bars
	wide := vg.Points(room / float64(len(p.Names)*(len(p.Series)+1)))
	bars, err := plotter.NewBarChart(plotter.Values(s.Values), wide)
	if err != nil {
		return err
	}
	bars.Color, bars.LineStyle.Width = plotutil.Color(i), 0
	bars.Offset = wide * vg.Length(2*i-len(p.Series)+1) / 2
	to.Add(bars)
	to.Legend.Add(s.Name, bars)
	return nil
}
